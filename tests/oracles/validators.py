"""The arithmetic of the validators `correct`, `debias` and `select`, with output masks."""

from dataclasses import dataclass

import numpy as np

from .grids import distance, resample
from .scales import mfc_scale

EPS_RES = 1e-6  # of the mean square of the data, or of 1 where there is none


def mean_over_examples(question, squares):
    """The mean over h of the mean of squares[h] over the observed entries of y_h.

    An example with no observed entry is left out; without any example there is no mean.
    """
    means = [np.mean(squares[h][question.y_masks[h]]) for h in range(question.D) if question.y_masks[h].any()]
    return np.mean(means) if means else np.nan


def validation_error(question, held_answers):
    """The in-context validation error of D held-out answers (e.g. eq. supp_mfc_raw_error)."""
    return mean_over_examples(question, [(question.ys[h] - held_answers[h]) ** 2 for h in range(question.D)])


def residuals(question, held_answers):
    """R_h = y_h - answer_h (eq. residual_base_residuals); 0 stands where y_h is not observed."""
    return [np.where(question.y_masks[h], question.ys[h] - held_answers[h], 0.0) for h in range(question.D)]


def others(question, h):
    """The pairs other than h."""
    return [j for j in range(question.D) if j != h]


def weights(question, sources, values, coords, s_x, kind):
    """w_j for the source pairs j (eqs. residual_transfer_distance, residual_transfer), or all equal."""
    if kind == "uniform":
        return [1.0 / len(sources)] * len(sources)
    d = [distance(question, j, values, coords, s_x) for j in sources]
    tau = max(np.mean(d), EPS_RES * (np.mean([np.mean((x / s_x) ** 2) for x in question.xs]) or 1.0))
    e = [np.exp(-d_j / tau) for d_j in d]
    return [e_j / sum(e) for e_j in e]


def transfer(question, R, sources, w, coords):
    """(sum_j w_j m_j R_j / sum_j w_j m_j, whether any R_j is known), point by point on the grid `coords`.

    Eqs. residual_transfer and residual_context_reconstruction; 0 where no residual is known.
    """
    numerator = np.zeros((len(coords), question.c_out))
    denominator = np.zeros((len(coords), question.c_out))
    for j, w_j in zip(sources, w, strict=True):
        observed = resample(question.y_coords[j], coords, question.y_masks[j])
        residual = resample(question.y_coords[j], coords, R[j])
        numerator[observed] += w_j * residual[observed]
        denominator[observed] += w_j
    known = denominator > 0
    delta = np.zeros(numerator.shape)
    delta[known] = numerator[known] / denominator[known]
    return delta, known


@dataclass
class Correction:
    """What residual correction fits: Delta_*, Delta_h, alpha_hat, both errors and the gate."""

    delta_query: np.ndarray
    deltas: list
    alpha_hat: float
    e_base: float
    e_fit: float
    gate_open: bool

    def at_query(self, base_query):
        """Eq. residual_corrected_prediction; a closed gate returns the base prediction itself."""
        return base_query + self.alpha_hat * self.delta_query if self.gate_open else base_query

    def at_examples(self, base_held):
        """The held-out answers, before the gate."""
        return [base + self.alpha_hat * delta for base, delta in zip(base_held, self.deltas, strict=True)]


def correction(question, base_held, kind="similar", magnitude=None, gate=True):
    """Algorithm chop_G with masks, and with s_x the sigma of the MFC rule on the prompt received."""
    D = question.D
    _, s_x = mfc_scale(question)
    R = residuals(question, base_held)

    everyone = list(range(D))
    w = weights(question, everyone, question.query, question.query_coords, s_x, kind)
    delta_query, _ = transfer(question, R, everyone, w, question.at)

    deltas = []
    for h in range(D):
        rest = others(question, h)
        w = weights(question, rest, question.xs[h], question.x_coords[h], s_x, kind)
        deltas.append(transfer(question, R, rest, w, question.y_coords[h])[0])

    if magnitude is None:
        numerator, denominator = 0.0, 0.0
        for h in range(D):
            observed = question.y_masks[h]
            numerator += np.sum(deltas[h][observed] * R[h][observed])
            denominator += np.sum(deltas[h][observed] ** 2)
        power = mean_over_examples(question, [question.ys[h] ** 2 for h in range(D)])
        floor = EPS_RES * (power if power > 0 else 1.0)
        alpha_hat = np.clip(numerator / np.maximum(denominator, floor), 0.0, 1.0)
    else:
        alpha_hat = magnitude

    e_base = mean_over_examples(question, [R[h] ** 2 for h in range(D)])
    e_fit = mean_over_examples(question, [(R[h] - alpha_hat * deltas[h]) ** 2 for h in range(D)])
    gate_open = bool(np.isfinite(e_fit) and e_fit < e_base) if gate else True
    return Correction(delta_query, deltas, alpha_hat, e_base, e_fit, gate_open)


def neighbours(edges, s):
    """N_G(s): the distinct other stations that share an edge with station s."""
    found = set()
    for a, b in edges:
        if a == s and b != s:
            found.add(int(b))
        if b == s and a != s:
            found.add(int(a))
    return sorted(found)


def graph_average(edges, z, known):
    """A_G (eq. supp_air_graph_average) over the neighbours where z is known; without any, z itself."""
    result = z.copy()
    for s in range(z.shape[0]):
        for c in range(z.shape[1]):
            values = [z[r, c] for r in neighbours(edges, s) if known[r, c]]
            if values:
                result[s, c] = np.mean(values)
    return result


def mean_residual(question, R, sources, coords, smooth):
    """R-bar (eqs. supp_air_holdout_means, supp_air_query_means) of the source pairs, or A_G of it."""
    mean, known = transfer(question, R, sources, [1.0] * len(sources), coords)
    if smooth == "none":
        return mean
    if question.edges is None:
        raise ValueError("smoothing over a graph needs a question with edges")
    return graph_average(question.edges, mean, known)


def choose(errors):
    """The branch taken (eq. supp_mfc_corrected_prediction): the last is the fallback.

    The smallest finite error strictly below the fallback's wins, the first on ties; any finite error
    is below a fallback error that is not finite.
    """
    best, best_error = len(errors) - 1, errors[-1] if np.isfinite(errors[-1]) else np.inf
    for k, error in enumerate(errors[:-1]):
        if np.isfinite(error) and error < best_error:
            best, best_error = k, error
    return best
