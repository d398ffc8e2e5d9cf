"""The paper's four chains and two general algorithms as printed, straight down, every entry observed."""

from dataclasses import replace

import numpy as np

from .grids import first_smallest, resample
from .scales import EPS
from .simplex import minimize_on_simplex

EPS_RES = 1e-6


def shift(v, r):
    """The cyclic shift of the field v by r grid points: point i moves to point i + r."""
    n = len(v)
    return np.array([v[(i - r) % n] for i in range(n)])


def without_pair(question, h):
    """The prompt of the remaining D - 1 pairs, in order, that asks x_h."""
    kept = [j for j in range(question.D) if j != h]
    return replace(
        question,
        xs=[question.xs[j] for j in kept],
        x_coords=[question.x_coords[j] for j in kept],
        ys=[question.ys[j] for j in kept],
        y_coords=[question.y_coords[j] for j in kept],
        y_masks=[question.y_masks[j] for j in kept],
        query=question.xs[h],
        query_coords=question.x_coords[h],
        at=question.y_coords[h],
        times=[question.times[j] for j in kept] + [question.times[h]],
    )


def augmented(question, h):
    """The same with the first remaining pair appended, so that D pairs are shown (Algorithm chop_main)."""
    rest = without_pair(question, h)
    return replace(
        rest,
        xs=[*rest.xs, rest.xs[0]],
        x_coords=[*rest.x_coords, rest.x_coords[0]],
        ys=[*rest.ys, rest.ys[0]],
        y_coords=[*rest.y_coords, rest.y_coords[0]],
        y_masks=[*rest.y_masks, rest.y_masks[0]],
        times=[*rest.times[:-1], rest.times[0], rest.times[-1]],
    )


def chop_conservation(question, model):
    """Algorithm consv_chain_eval; the temporal indices of x_i, y_i and x_* are i - 1, i and D."""
    D = question.D
    x_D, y_D = question.xs[D - 1], question.ys[D - 1]
    N_x = len(x_D)

    # Shift.
    x_bar = x_D - x_D.mean(axis=0)
    y_bar = y_D - y_D.mean(axis=0)
    shifts = range(-(N_x // 4), N_x // 4 + 1)
    errors = [np.sum((shift(x_bar, r) - y_bar) ** 2) for r in shifts]
    s = shifts[first_smallest(errors, np.sum(x_bar**2) + np.sum(y_bar**2))]
    x_s = [shift(question.xs[i - 1], -(i - 1) * s) for i in range(1, D + 1)]
    y_s = [shift(question.ys[i - 1], -i * s) for i in range(1, D + 1)]
    query_s = shift(question.query, -D * s)

    # Rescale.
    pooled = np.concatenate([field.ravel() for field in [*x_s, *y_s, query_s]])
    m_sc = pooled.mean()
    sigma_sc = max(np.sqrt(np.sum((pooled - m_sc) ** 2) / (len(pooled) - 1)), EPS)
    rescaled = replace(
        question,
        xs=[(x - m_sc) / sigma_sc for x in x_s],
        ys=[(y - m_sc) / sigma_sc for y in y_s],
        query=(query_s - m_sc) / sigma_sc,
    )

    # ICON, inverse rescale, inverse shift, mass conservation.
    y_hat_sc = model(rescaled)
    y_hat_s = sigma_sc * y_hat_sc + m_sc
    y_hat = shift(y_hat_s, (D + 1) * s)
    return y_hat + question.query.mean(axis=0) - y_hat.mean(axis=0)


def full_prompt_scale(question):
    """(m_sc, sigma_sc) of Section supp_chop_mfc."""
    v_vis = np.concatenate([field.ravel() for field in [*question.xs, *question.ys, question.query]])
    if v_vis.min() >= -EPS:
        return 0.0, np.sqrt(max((v_vis**2).mean(), EPS))
    m_sc = v_vis.mean()
    return m_sc, max(np.sqrt(np.sum((v_vis - m_sc) ** 2) / (len(v_vis) - 1)), EPS)


def rescaled_route(question, model):
    """Rescale, ICON, inverse rescale (eqs. supp_mfc_rescaling and supp_mfc_rescaled_prediction)."""
    m_sc, sigma_sc = full_prompt_scale(question)
    rescaled = replace(
        question,
        xs=[(x - m_sc) / sigma_sc for x in question.xs],
        ys=[(y - m_sc) / sigma_sc for y in question.ys],
        query=(question.query - m_sc) / sigma_sc,
    )
    return sigma_sc * model(rescaled) + m_sc


def g_corr(question, base_held, base_query, s_x):
    """Algorithm chop_G: the corrected prediction and the pre-gate error E_fit.

    With alpha_use = 0 the corrected prediction is the base prediction itself, whatever Delta_* holds.
    """
    D = question.D
    xs, x_coords, y_coords = question.xs, question.x_coords, question.y_coords

    # The held-out base residuals.
    R = [question.ys[h] - base_held[h] for h in range(D)]

    # Transfer to the query.
    d_query = np.zeros(D)
    for h in range(D):
        aligned = resample(x_coords[h], question.query_coords, xs[h])
        d_query[h] = np.mean(((aligned - question.query) / s_x) ** 2)
    tau_query = max(np.sum(d_query) / D, EPS_RES)
    w_query = np.exp(-d_query / tau_query) / np.sum(np.exp(-d_query / tau_query))
    delta_query = sum(w_query[h] * resample(y_coords[h], question.at, R[h]) for h in range(D))

    # Reconstruct each residual from the others.
    deltas = []
    for h in range(D):
        rest = [j for j in range(D) if j != h]
        d = {}
        for j in rest:
            aligned = resample(x_coords[j], x_coords[h], xs[j])
            d[j] = np.mean(((aligned - xs[h]) / s_x) ** 2)
        tau_h = max(sum(d.values()) / (D - 1), EPS_RES)
        total = sum(np.exp(-d[r] / tau_h) for r in rest)
        w = {j: np.exp(-d[j] / tau_h) / total for j in rest}
        deltas.append(sum(w[j] * resample(y_coords[j], y_coords[h], R[j]) for j in rest))

    # Fit the magnitude, apply the gate.
    numerator = sum(np.sum(deltas[h] * R[h]) for h in range(D))
    denominator = max(sum(np.sum(deltas[h] ** 2) for h in range(D)), EPS_RES)
    alpha_hat = np.clip(numerator / denominator, 0.0, 1.0)
    E_base = sum(np.mean(R[h] ** 2) for h in range(D)) / D
    E_fit = sum(np.mean((R[h] - alpha_hat * deltas[h]) ** 2) for h in range(D)) / D
    gate_open = np.isfinite(E_fit) and E_fit < E_base
    corrected = base_query + alpha_hat * delta_query if gate_open else base_query
    return corrected, E_fit


def chop_mfc(question, model):
    """Algorithm chop_main; whether to reject a non-finite prediction is left to the caller."""
    D = question.D
    prompts = [augmented(question, h) for h in range(D)]
    base_held = [rescaled_route(prompt, model) for prompt in prompts]
    raw_held = [model(prompt) for prompt in prompts]
    E_raw = sum(np.mean((question.ys[h] - raw_held[h]) ** 2) for h in range(D)) / D
    _, sigma_sc = full_prompt_scale(question)
    base_query = rescaled_route(question, model)
    raw_query = model(question)
    corrected, E_fit = g_corr(question, base_held, base_query, sigma_sc)
    return corrected if np.isfinite(E_fit) and E_fit < E_raw else raw_query


def chop_corr(question, model):
    """CHOP(Corr): Algorithm chop_G straight after Raw ICON, with the full-prompt scale."""
    _, sigma_sc = full_prompt_scale(question)
    base_held = [model(augmented(question, h)) for h in range(question.D)]
    return g_corr(question, base_held, model(question), sigma_sc)[0]


def candidate_combination(ys, held, query):
    """Algorithm context_validated_combination for one channel.

    ys[h] is the vector y_h, held[h][k] and query[k] are the vectors of candidate k; the first is the
    reference.
    """
    D, K = len(ys), len(query)
    M_h = []
    for h in range(D):
        e = [held[h][k] - ys[h] for k in range(K)]
        N_h = len(ys[h])
        M_h.append(np.array([[np.sum(e[k] * e[r]) / N_h for r in range(K)] for k in range(K)]))
    M = sum(M_h) / D
    a_hat = minimize_on_simplex(M)

    refits = []
    for h in range(D):
        M_minus_h = sum(M_h[j] for j in range(D) if j != h) / (D - 1)
        refits.append(minimize_on_simplex(M_minus_h))
    a_bar = sum(refits) / D
    V = (D - 1) / D * sum(np.outer(refits[h] - a_bar, refits[h] - a_bar) for h in range(D))

    a_ref = np.zeros(K)
    a_ref[0] = 1.0
    delta = a_hat - a_ref
    denominator = delta @ M @ delta + np.trace(M @ V)
    lam = (delta @ M @ delta) / denominator if denominator > 0 else 0.0
    a = a_ref + lam * delta
    return sum(a[k] * query[k] for k in range(K))


def nearest_example(inputs, asked, sigma):
    """j_h and j_* (eq. supp_air_holdout_distance): the position in `inputs`, the first on ties."""
    d = [np.mean(((x - asked) / sigma) ** 2) for x in inputs]
    return first_smallest(d, min(d))


def feature_scale(inputs):
    """sigma_q^val: the floored population standard deviation of every input feature."""
    stacked = np.concatenate(inputs)
    return np.maximum(np.sqrt(np.mean((stacked - stacked.mean(axis=0)) ** 2, axis=0)), 1e-4)


def station_average(edges, z):
    """A_G (eq. supp_air_graph_average); edges are undirected, their weights ignored."""
    result = z.copy()
    for s in range(len(z)):
        neighbours = {b for a, b in edges if a == s} | {a for a, b in edges if b == s}
        neighbours.discard(s)
        if neighbours:
            result[s] = sum(z[r] for r in neighbours) / len(neighbours)
    return result


def without_nonfinite(values):
    """NaN and infinite entries replaced by zero."""
    return np.where(np.isfinite(values), values, 0.0)


def chop_air(question, model, channels=(-2, -1)):
    """Algorithm air_chain; windows are time-major, oldest frame first, over the stations of the output."""
    D, xs, ys, edges = question.D, question.xs, question.ys, question.edges
    stations = len(question.at)

    # Raw ICON at the example inputs, and its residuals.
    raw = [without_nonfinite(model(without_pair(question, h))) for h in range(D)]
    R = [ys[h] - raw[h] for h in range(D)]

    # One row of candidates at each example input.
    sigma = feature_scale(xs)
    rows = []
    for h in range(D):
        rest = [j for j in range(D) if j != h]
        y_bar = sum(ys[j] for j in rest) / (D - 1)
        R_bar = sum(R[j] for j in rest) / (D - 1)
        j_h = rest[nearest_example([xs[j] for j in rest], xs[h], sigma)]
        rows.append(
            [
                raw[h],
                xs[h][-stations:],
                xs[h][:stations],
                y_bar,
                ys[j_h],
                raw[h] + R_bar,
                raw[h] + station_average(edges, R_bar),
            ]
        )

    # The candidates at the query.
    y_bar = sum(ys) / D
    R_bar = sum(R) / D
    j_query = nearest_example(xs, question.query, feature_scale([*xs, question.query]))
    raw_query = model(question)
    query_row = [
        raw_query,
        question.query[-stations:],
        question.query[:stations],
        y_bar,
        ys[j_query],
        raw_query + R_bar,
        raw_query + station_average(edges, R_bar),
    ]

    # One combination per pollutant; the other channels stay those of Raw ICON.
    result = raw_query.copy()
    for c in channels:
        result[:, c] = candidate_combination(
            [y[:, c] for y in ys],
            [[candidate[:, c] for candidate in row] for row in rows],
            [candidate[:, c] for candidate in query_row],
        )
    return without_nonfinite(result)
