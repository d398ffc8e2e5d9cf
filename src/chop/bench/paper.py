"""The paper's numbers: relative L2 errors, mean and sample standard deviation, and reductions in percent.

From the supplementary tables of *Chain of Operators* (conservation laws after one and 144 steps, fifteen
mean-field-control conditions, the cost-to-density components, the transfer to conservation laws).
"""

from __future__ import annotations

from dataclasses import dataclass

Spread = tuple[float, float]
Counts = tuple[int, int, int]


@dataclass(frozen=True)
class Row:
    """Raw ICON and a program around it."""

    raw: Spread
    chop: Spread
    reduction: float
    counts: Counts | None = None
    """Questions lower, equal, higher than Raw ICON."""


SINGLE_STEP = {
    "sin_cos": Row((0.0451, 0.0312), (0.0222, 0.0219), 50.68),
    "tanh": Row((0.0475, 0.0199), (0.0313, 0.0223), 34.16),
    "buckley_leverett": Row((0.1418, 0.1530), (0.0951, 0.1307), 32.93),
}
STEP_144 = {
    "sin_cos": Row((2.2413, 4.7878), (0.2186, 0.3567), 90.25),
    "tanh": Row((0.8105, 0.6017), (0.4325, 0.5390), 46.64),
    "buckley_leverett": Row((2.1342, 5.7115), (0.2539, 0.2939), 88.10),
}
MFC = {
    ("g_1to1", 0.5): Row((0.0281, 0.0332), (0.0157, 0.0087), 44.10),
    ("g_1to1", 0.3): Row((0.2379, 0.1401), (0.0364, 0.0323), 84.69),
    ("g_1to1", 0.1): Row((0.7627, 0.0969), (0.1082, 0.0686), 85.82),
    ("g_1to2", 0.5): Row((0.1097, 0.0284), (0.0280, 0.0187), 74.44),
    ("g_1to2", 0.3): Row((0.1542, 0.0453), (0.0334, 0.0264), 78.37),
    ("g_1to2", 0.1): Row((0.3219, 0.0711), (0.0536, 0.0358), 83.36),
    ("g_2to2", 0.5): Row((0.0314, 0.0141), (0.0060, 0.0034), 80.86),
    ("g_2to2", 0.3): Row((0.1074, 0.0375), (0.0156, 0.0119), 85.47),
    ("g_2to2", 0.1): Row((0.3095, 0.0724), (0.0447, 0.0308), 85.56),
    ("rho_1to1", 0.5): Row((0.004637, 0.001892), (0.004637, 0.001892), 0.00, (0, 100, 0)),
    ("rho_1to1", 0.3): Row((0.004616, 0.001821), (0.004616, 0.001821), 0.00, (0, 100, 0)),
    ("rho_1to1", 0.1): Row((0.003976, 0.001696), (0.003976, 0.001696), 0.00, (0, 100, 0)),
    ("rho_1to2", 0.5): Row((0.079546, 0.031130), (0.080892, 0.035557), -1.69, (0, 99, 1)),
    ("rho_1to2", 0.3): Row((0.074664, 0.034394), (0.075392, 0.036641), -0.97, (1, 98, 1)),
    ("rho_1to2", 0.1): Row((0.069952, 0.025328), (0.069952, 0.025328), 0.00, (0, 100, 0)),
}
CORR = {
    ("rho_1to1", 0.5): Row((0.004637, 0.001892), (0.004554, 0.001943), 1.80, (45, 34, 21)),
    ("rho_1to1", 0.3): Row((0.004616, 0.001821), (0.004503, 0.001850), 2.47, (48, 31, 21)),
    ("rho_1to1", 0.1): Row((0.003976, 0.001696), (0.003793, 0.001705), 4.60, (61, 25, 14)),
    ("rho_1to2", 0.5): Row((0.079546, 0.031130), (0.043864, 0.018900), 44.86, (98, 0, 2)),
    ("rho_1to2", 0.3): Row((0.074664, 0.034394), (0.043324, 0.020183), 41.98, (93, 0, 7)),
    ("rho_1to2", 0.1): Row((0.069952, 0.025328), (0.041670, 0.017305), 40.43, (93, 0, 7)),
}
TRANSFER = {
    "sin_cos": Row((0.0451, 0.0312), (0.0374, 0.0315), 17.06),
    "tanh": Row((0.0475, 0.0199), (0.0382, 0.0212), 19.48),
    "buckley_leverett": Row((0.1418, 0.1530), (0.1138, 0.1420), 19.78),
}

LEAST = {"single": 32.0, "step 144": 46.0, "density": 44.0, "corr": 0.0, "transfer": 15.0}
"""The reductions (percent) that every condition of a claim must reach; more than 0 for CHOP(Corr)."""

__all__ = ["CORR", "LEAST", "MFC", "SINGLE_STEP", "STEP_144", "TRANSFER", "Row"]
