from banditmips.core.plain import BytesFirst
from banditmips.core.scored import PlainScores

class ScoresBatch(PlainScores):
    n_queries: int
    bytes_first: BytesFirst
