"""A hierarchical proximity graph of inner products (as the baseline NAPG-MIPS has it): build it, walk it."""

from libc.stdint cimport int64_t, uint8_t

import numpy as np

cimport numpy as cnp

from banditmips.core.kernels cimport BM_F32, bm_kernels

cnp.import_array()


cdef class Graph:
    """Links between atoms, on layers that thin out upwards.

    Parameters
    ----------
    atoms : array of shape (n, d), float32 or float64, C order
        Referred to, never copied.

    Attributes
    ----------
    links
        One row for each (atom, layer) pair: the atoms that it is linked to, as far as `degrees` says.
    degrees
        How many links each of those rows has.
    first_row
        Row of each atom on layer 0; its rows on the layers above follow.
    entry
        Where every walk starts: an atom on the top layer.
    top
        The top layer.
    """

    cdef readonly object atoms, links, degrees, first_row
    cdef readonly int64_t entry, top
    cdef const char* _base
    cdef bint _is_single
    cdef int64_t _n, _d
    cdef int64_t[:, ::1] _links
    cdef int64_t[::1] _degrees, _first_row

    def __init__(self, atoms, links, degrees, first_row, int64_t entry, int64_t top):
        if atoms.dtype not in (np.float32, np.float64) or not atoms.flags.c_contiguous:
            found = f"{atoms.dtype} with strides {atoms.strides}"
            raise TypeError(f"atoms must be float32 or float64 in C order, got {found}")
        self.atoms, self.links, self.degrees, self.first_row = atoms, links, degrees, first_row
        self.entry, self.top = entry, top
        self._base = <const char*> cnp.PyArray_DATA(atoms)
        self._is_single = atoms.dtype == np.float32
        self._n, self._d = atoms.shape
        self._links, self._degrees, self._first_row = links, degrees, first_row

    def __reduce__(self):
        return Graph, (self.atoms, self.links, self.degrees, self.first_row, self.entry, self.top)

    cdef double product(self, int64_t atom, const double* query) noexcept nogil:
        if self._is_single:
            return bm_kernels().dot_exact_f32(<const float*> self._base + atom * self._d, query, self._d)
        return bm_kernels().dot_exact_f64(<const double*> self._base + atom * self._d, query, self._d)

    cdef const double* as_query(self, int64_t atom, double* room) noexcept nogil:
        """Return the atom in double precision; `room` is for d numbers."""
        if not self._is_single:
            return <const double*> self._base + atom * self._d
        bm_kernels().to_f64(BM_F32, <const float*> self._base + atom * self._d, sizeof(float), self._d, room)
        return room

    def walk(self, const double[::1] query, int64_t ef):
        """Descend to the bottom layer and explore it.

        Returns
        -------
        found, scores : arrays
            The `ef` best atoms met on the bottom layer, best first, and their inner products with the query.
        n_products : int
            Inner products evaluated on the whole way.
        """
        if query.shape[0] != self._d:
            raise ValueError(f"query must have {self._d} entries, got {query.shape[0]}")
        cdef Explorer explorer = Explorer(self, ef)
        cdef int64_t layer
        with nogil:
            explorer.begin(&query[0])
            for layer in range(self.top, 0, -1):
                explorer.explore(layer, 1)
            explorer.explore(0, ef)
        size = explorer.best.size
        return explorer.best.atom_array[:size], explorer.best.score_array[:size], explorer.n_products


cdef class Ranking:
    """The best atoms met so far, best first; of two equal scores the smaller index counts as the better."""

    cdef readonly object atom_array, score_array
    cdef readonly int64_t size
    cdef int64_t limit
    cdef int64_t[::1] atoms
    cdef double[::1] scores
    cdef uint8_t[::1] followed  # whether an atom's own links have been followed

    def __init__(self, int64_t room):
        self.atom_array, self.score_array = np.empty(room, dtype=np.int64), np.empty(room)
        self.atoms, self.scores, self.followed = self.atom_array, self.score_array, np.zeros(room, dtype=np.uint8)
        self.size, self.limit = 0, room

    cdef int64_t insert(self, int64_t atom, double score) noexcept nogil:
        """Insert an atom and return its place: `limit` if the ranking is full of better ones."""
        cdef int64_t position, place = self.size
        while place > 0 and (
            score > self.scores[place - 1] or (score == self.scores[place - 1] and atom < self.atoms[place - 1])
        ):
            place -= 1
        if place == self.limit:
            return place
        self.size = min(self.size + 1, self.limit)
        for position in range(self.size - 1, place, -1):
            self.atoms[position] = self.atoms[position - 1]
            self.scores[position] = self.scores[position - 1]
            self.followed[position] = self.followed[position - 1]
        self.atoms[place], self.scores[place], self.followed[place] = atom, score, False
        return place


cdef class Explorer:
    """One query's way through a graph, from the top layer down."""

    cdef Graph graph
    cdef Ranking best
    cdef readonly int64_t n_products
    cdef uint8_t[::1] _seen
    cdef const double* _query

    def __init__(self, Graph graph, int64_t ef):
        self.graph, self.best = graph, Ranking(min(ef, graph._n))
        self._seen = np.empty(graph._n, dtype=np.uint8)

    cdef void begin(self, const double* query) noexcept nogil:
        """Stand on the graph's entry."""
        self._query = query
        self.best.atoms[0], self.best.scores[0] = self.graph.entry, self.graph.product(self.graph.entry, query)
        self.n_products = 1

    cdef void explore(self, int64_t layer, int64_t ef) noexcept nogil:
        """Find the `ef` best atoms to be met on a layer, from the best one so far.

        Follows the links of the best atom whose links have not been followed yet, until there is none among the
        `ef` best.
        """
        cdef int64_t row, position, neighbour, place, cursor = 0
        self.best.size, self.best.limit, self.best.followed[0] = 1, min(ef, self.graph._n), False
        self._seen[:] = False
        self._seen[self.best.atoms[0]] = True
        while cursor < self.best.size:
            if self.best.followed[cursor]:
                cursor += 1
                continue
            self.best.followed[cursor] = True
            row = self.graph._first_row[self.best.atoms[cursor]] + layer
            for position in range(self.graph._degrees[row]):
                neighbour = self.graph._links[row, position]
                if self._seen[neighbour]:
                    continue
                self._seen[neighbour] = True
                self.n_products += 1
                place = self.best.insert(neighbour, self.graph.product(neighbour, self._query))
                cursor = min(cursor, place)


cdef class Builder:
    """Inserts atoms into a graph, one after another."""

    cdef Graph graph
    cdef Explorer _explorer
    cdef Ranking _neighbours
    cdef int64_t _max_links, _ef, _n_chosen
    cdef int64_t[::1] _chosen
    cdef const double[::1] _alphas
    cdef double[:, ::1] _rooms

    def __init__(self, Graph graph, const double[::1] alphas, int64_t max_links, int64_t ef):
        self.graph, self._alphas, self._max_links, self._ef = graph, alphas, max_links, ef
        self._explorer = Explorer(graph, ef)
        self._neighbours = Ranking(2 * max_links + 1)
        self._chosen = np.empty(2 * max_links, dtype=np.int64)
        self._rooms = np.empty((3, graph._d))

    cdef void insert(self, int64_t newcomer, int64_t top) noexcept nogil:
        """Link an atom, whose top layer this is, with the atoms before it."""
        cdef int64_t layer, t, first_row = self.graph._first_row[newcomer]
        self._explorer.begin(self.graph.as_query(newcomer, &self._rooms[0, 0]))
        for layer in range(self.graph.top, -1, -1):
            if layer > top:
                self._explorer.explore(layer, 1)
                continue
            self._explorer.explore(layer, self._ef)
            self._select(self._explorer.best, self._alphas[newcomer], self._max_links)
            self._set_links(first_row + layer)
            # Linking back chooses anew, so that the choice is read from the graph.
            for t in range(self.graph._degrees[first_row + layer]):
                self._link_back(self.graph._links[first_row + layer, t], newcomer, layer)
        if top > self.graph.top:
            self.graph.entry, self.graph.top = newcomer, top

    cdef void _set_links(self, int64_t row) noexcept nogil:
        cdef int64_t t
        for t in range(self._n_chosen):
            self.graph._links[row, t] = self._chosen[t]
        self.graph._degrees[row] = self._n_chosen

    cdef void _select(self, Ranking candidates, double alpha, int64_t most) noexcept nogil:
        """Choose links among candidates that point in different directions.

        A candidate is passed over if its inner product with a link already chosen exceeds `alpha` times the one
        with the atom that is being linked: whoever follows that link finds it anyway. alpha = 1 is ip-NSW's rule.
        """
        cdef int64_t t, u
        cdef const double* candidate
        cdef bint apart
        self._n_chosen = 0
        for t in range(candidates.size):
            if self._n_chosen == most:
                break
            candidate = self.graph.as_query(candidates.atoms[t], &self._rooms[1, 0])
            apart = True
            for u in range(self._n_chosen):
                if alpha * candidates.scores[t] < self.graph.product(self._chosen[u], candidate):
                    apart = False
                    break
            if apart:
                self._chosen[self._n_chosen] = candidates.atoms[t]
                self._n_chosen += 1

    cdef void _link_back(self, int64_t atom, int64_t newcomer, int64_t layer) noexcept nogil:
        """Link an atom to a newcomer; where its row is full, choose its links anew."""
        cdef int64_t t, link, row = self.graph._first_row[atom] + layer
        cdef int64_t degree = self.graph._degrees[row], most = 2 * self._max_links if layer == 0 else self._max_links
        cdef const double* linked
        if degree < most:
            self.graph._links[row, degree] = newcomer
            self.graph._degrees[row] = degree + 1
            return
        linked = self.graph.as_query(atom, &self._rooms[2, 0])
        self._neighbours.size = 0
        for t in range(degree + 1):
            link = self.graph._links[row, t] if t < degree else newcomer
            self._neighbours.insert(link, self.graph.product(link, linked))
        self._select(self._neighbours, self._alphas[atom], most)
        self._set_links(row)


def build(atoms, const int64_t[::1] layers, const double[::1] alphas, int64_t max_links, int64_t ef):
    """Insert the atoms one by one and return the graph.

    `layers` holds the top layer of each atom, `alphas` the factor of its edge selection; an atom gets up to
    `max_links` links on each layer, twice as many on layer 0, chosen among the `ef` best atoms met there.
    """
    if not layers.shape[0] == alphas.shape[0] == atoms.shape[0]:
        found = f"{layers.shape[0]}, {alphas.shape[0]}"
        raise ValueError(f"{atoms.shape[0]} atoms must have as many layers and factors, got {found}")
    rows_of_atom = np.asarray(layers) + 1
    first_row, n_rows = np.cumsum(rows_of_atom) - rows_of_atom, int(rows_of_atom.sum())
    links, degrees = np.full((n_rows, 2 * max_links), -1, dtype=np.int64), np.zeros(n_rows, dtype=np.int64)
    cdef Graph graph = Graph(atoms, links, degrees, first_row, 0, layers[0])
    cdef Builder builder = Builder(graph, alphas, max_links, ef)
    cdef int64_t newcomer
    with nogil:
        for newcomer in range(1, graph._n):
            builder.insert(newcomer, layers[newcomer])
    return graph
