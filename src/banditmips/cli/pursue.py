"""``banditmips pursue``: which notes, or which recordings, a sound is made of."""

from __future__ import annotations

import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from banditmips.cli import _options as given
from banditmips.cli._completion import one_of
from banditmips.cli._console import duration, say, working
from banditmips.cli._names import PURSUITS

if TYPE_CHECKING:
    from banditmips.audio import Sound, SoundDictionary
    from banditmips.pursuit import PursuitResult

__all__ = ["pursue"]

_ENDINGS = {
    "zero_residual": "nothing is left of the sound",
    "uncorrelated": "no component explains any of what is left",
    "dependent": "the next component is a combination of those found",
}


def pursue(
    file: Annotated[Path, typer.Argument(help="Sound to decompose: WAV, FLAC or OGG; stereo is averaged.")],
    dictionary: Annotated[
        str,
        typer.Option(
            metavar="notes|gabor|wavs:DIR",
            help="Notes that last, notes that come and go, or the recordings in a folder.",
        ),
    ] = "notes",
    n: Annotated[int, typer.Option("-n", min=1, help="Components to find.")] = 10,
    method: Annotated[
        str,
        typer.Option(
            metavar="|".join(PURSUITS), help="Matching pursuit, or orthogonal.", autocompletion=one_of(PURSUITS)
        ),
    ] = "mp",
    delta: Annotated[float, typer.Option(help="Failure probability of the whole pursuit; 0 is exact.")] = 1e-3,
    weakness: Annotated[
        float, typer.Option(help="Take a component that explains this share less than the best one.")
    ] = 0.0,
    hop: Annotated[
        float | None, typer.Option(help="Seconds between places; by default 0.1 (gabor) or 0.25 (wavs).")
    ] = None,
    seed: given.Seed = 0,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Reconstruction (WAV); by default FILE-pursuit.wav.")
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Spectrograms (PNG, SVG or PDF); by default FILE-pursuit.png.")
    ] = None,
) -> None:
    """Decompose a sound into the notes of a piano, or into recordings, by matching pursuit.

    Prints the components in the order found, and writes their sum and a picture of it into the current folder.

    Notes are ranked whatever their phase: each is a sine together with its cosine.
    """
    from banditmips._result_files import check_place
    from banditmips.audio import read_sound, write_sound
    from banditmips.pursuit._options import PursuitOptions

    output = Path(f"{file.stem}-pursuit.wav") if output is None else output
    picture = Path(f"{file.stem}-pursuit.png") if picture is None else picture
    options = {"method": method, "delta": delta, "weakness": weakness, "seed": seed}
    PursuitOptions(n_nonzero=n, **options)  # type: ignore[arg-type]
    if picture.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise ValueError(f"--picture must end in .png, .svg or .pdf, got {picture}")
    for path in (output, picture):
        check_place(path)
        if path.exists() and file.exists() and path.samefile(file):
            raise ValueError(f"{path} is the sound to decompose: choose another file to write to")
    sound = read_sound(file)
    if sound.n_channels > 1:
        say(f"{file} has {sound.n_channels} channels, which were averaged")
    atoms = _make_dictionary(dictionary, sound, hop)
    result = _run(atoms, sound, n, options)
    _print_components(result, atoms, options["method"] == "mp")
    reconstruction = result.reconstruct()
    write_sound(output, reconstruction, sound.sample_rate)
    say(f"the sum of the components is in {output}")
    _draw(sound, reconstruction, picture, f"{file.name}: {len(result.indices)} components")


def _make_dictionary(name: str, sound: Sound, hop: float | None) -> SoundDictionary:
    from banditmips.audio import gabor_notes, notes, recordings

    size, rate = sound.samples.size, sound.sample_rate
    if name == "notes" and hop is not None:
        raise ValueError("--hop is for --dictionary gabor and wavs:DIR; notes last as long as the sound")
    if name == "notes":
        return notes(size, rate)
    if name == "gabor":
        return gabor_notes(size, rate, hop)
    if name.startswith("wavs:") and len(name) > len("wavs:"):
        with working("reading the recordings"):
            return recordings(name.removeprefix("wavs:"), size, rate, hop)
    raise ValueError(f"--dictionary must be notes, gabor or wavs:DIR, got {name!r}")


def _run(atoms: SoundDictionary, sound: Sound, n: int, options: dict[str, Any]) -> PursuitResult:
    """Decompose, and say on stderr what it took."""
    from banditmips.pursuit import matching_pursuit

    n_components = len(atoms.names)
    if n > n_components:
        raise ValueError(f"-n must be at most {n_components:,}, the number of components, got {n}")
    with working("decomposing"):
        start = time.perf_counter()
        result = matching_pursuit(atoms.store, sound.samples, n_nonzero=n, **options)
        seconds = time.perf_counter() - start
    stops = ", ".join(f"{count} {reason}" for reason, count in Counter(result.search_stops).most_common())
    share = result.n_multiplies_total / (max(len(result.indices), 1) * atoms.store.shape[0] * atoms.store.shape[1])
    say(f"{sound.seconds:.2f} s at {sound.sample_rate:,} Hz, {n_components:,} components to choose from")
    say(f"{duration(seconds)}, {result.n_multiplies_total:,} multiplies ({100 * share:.3g} % of all); steps: {stops}")
    if result.stop in _ENDINGS:
        say(f"ended after {len(result.indices)} of {n}: {_ENDINGS[result.stop]}")
    return result


def _print_components(result: PursuitResult, atoms: SoundDictionary, by_step: bool) -> None:
    """Print a table on a terminal, and CSV into a pipe."""
    import numpy as np

    from banditmips._result_files import write_csv

    groups = result.indices if result.indices.ndim == 1 else result.indices[:, 0] // 2
    energy = result.signal_norm**2
    left = result.residual_norms**2 / energy if energy > 0.0 else np.zeros(0)
    columns: dict[str, Any] = {
        "component": np.array([atoms.names[group] for group in groups], dtype=object),
        "strength": result.coefficients if result.coefficients.ndim == 1 else result.amplitudes,
        "energy_explained": 1.0 - left,
        "n_multiplies": result.n_multiplies,
    }
    if not sys.stdout.isatty():
        write_csv(sys.stdout, columns)
        sys.stdout.flush()
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("", "component", "strength", "explained so far", "multiplies")
    for column in (table.columns[0], *table.columns[2:]):
        column.justify = "right"
    for rank, (name, strength, explained, n_multiplies) in enumerate(zip(*columns.values(), strict=True), start=1):
        table.add_row(f"{rank}", name, f"{strength:.4f}", f"{100 * explained:.1f} %", f"{n_multiplies:,}")
    Console().print(table)
    if not by_step:
        say("strengths are those of the last step, in which all components were fitted together")


def _draw(sound: Sound, reconstruction: Any, picture: Path, title: str) -> None:
    from banditmips._result_files import replacing
    from banditmips.audio import plot_spectrograms

    try:
        figure = plot_spectrograms(sound.samples, reconstruction, sound.sample_rate, title)
    except ImportError as error:
        say(f"no picture: {error}")
        return
    with replacing(picture) as file:
        figure.savefig(file, format=picture.suffix[1:].lower())
    say(f"the spectrograms are in {picture}")
