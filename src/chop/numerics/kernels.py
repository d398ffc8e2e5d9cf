"""The compiled part: the tape interpreter, WENO3 / SSP-RK3 time stepping, and a matrix product.

Everything compiled lives in this one file, because numba's disk cache only notices changes of the file
a function is in. The kernels use one thread and never start numba's thread pool: idle OpenMP workers
spin, and slow down torch in the same or in another process by an order of magnitude. They let go of the
interpreter lock, so callers who want more cores use ordinary threads or processes.

Trajectories are followed one at a time: 100 points and a few registers stay in the first-level cache, and
the inner loops are plain enough to be vectorised. No fastmath of any kind: non-finite values must stay
visible, and with fused multiply-adds allowed a freshly compiled kernel and the same one from the disk
cache differ in last bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numba
import numpy as np


def _compiled(function: Callable[..., Any]) -> Any:
    """njit with a disk cache where one can be written, without where not (read-only installs)."""
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:
        return numba.njit(**options)(function)


# Sines, cosines and exponentials by polynomials that the compiler can vectorise: four to eight times as
# fast as the C library's, and within one or two units in the last place. Coefficients are Taylor's,
# with enough terms for |r| <= pi/4 and |r| <= log(2)/2; where an argument is too large for the plain
# reduction, or not finite, the whole vector goes to the C library.
_TWO_OVER_PI = 2.0 / math.pi
_HALF_PI_1 = 1.5707963267341256  # pi/2 in three parts: k times the first is exact for moderate k
_HALF_PI_2 = 6.077100506303966e-11
_HALF_PI_3 = 2.0222662487959506e-21
_FAST_ANGLE = 1e5
_LOG2_E = 1.0 / math.log(2.0)
_LOG2_1 = 0.69314718036912382
_LOG2_2 = 1.9082149292705877e-10
_FAST_EXPONENT = 700.0
_ROUND = 6755399441055744.0  # 1.5 * 2**52: adding it leaves the rounded integer in the low bits

S3, S5, S7, S9 = -1 / 6, 1 / 120, -1 / 5040, 1 / 362880
S11, S13, S15, S17 = -1 / 39916800, 1 / 6227020800, -1 / 1307674368000, 1 / 355687428096000
C4, C6, C8, C10 = 1 / 24, -1 / 720, 1 / 40320, -1 / 3628800
C12, C14, C16 = 1 / 479001600, -1 / 87178291200, 1 / 20922789888000
E2, E3, E4, E5, E6, E7 = 1 / 2, 1 / 6, 1 / 24, 1 / 120, 1 / 720, 1 / 5040
E8, E9, E10, E11 = 1 / 40320, 1 / 362880, 1 / 3628800, 1 / 39916800
E12, E13 = 1 / 479001600, 1 / 6227020800


@_compiled
def _all_below(x, limit):  # type: ignore[no-untyped-def]
    """Whether every |x| is below the limit; False with any NaN."""
    beyond = 0
    for i in range(x.size):
        beyond += 0 if abs(x[i]) < limit else 1
    return beyond == 0


@_compiled
def _sine(x, out, quarter):  # type: ignore[no-untyped-def]
    """sin(x + quarter * pi/2): the cosine is the sine a quarter turn on."""
    if not _all_below(x, _FAST_ANGLE):
        for i in range(x.size):
            out[i] = math.cos(x[i]) if quarter == 1.0 else math.sin(x[i])
        return
    for i in range(x.size):
        k = np.floor(x[i] * _TWO_OVER_PI + 0.5)
        r = ((x[i] - k * _HALF_PI_1) - k * _HALF_PI_2) - k * _HALF_PI_3
        z = r * r
        high = S11 + z * (S13 + z * (S15 + z * S17))
        s = r + r * z * (S3 + z * (S5 + z * (S7 + z * (S9 + z * high))))
        high = C10 + z * (C12 + z * (C14 + z * C16))
        c = 1.0 - 0.5 * z + z * z * (C4 + z * (C6 + z * (C8 + z * high)))
        turn = k + quarter
        turn -= 4.0 * np.floor(turn * 0.25)
        odd = turn - 2.0 * np.floor(turn * 0.5)
        value = c if odd == 1.0 else s
        out[i] = -value if turn >= 2.0 else value


@_compiled
def _exponential(x, out, factor):  # type: ignore[no-untyped-def]
    """exp(factor * x)."""
    if not _all_below(x, _FAST_EXPONENT / abs(factor)):
        for i in range(x.size):
            out[i] = math.exp(factor * x[i])
        return
    bits = out.view(np.int64)
    for i in range(x.size):
        out[i] = factor * x[i] * _LOG2_E + _ROUND
    for i in range(x.size):
        k = out[i] - _ROUND
        r = (factor * x[i] - k * _LOG2_1) - k * _LOG2_2
        high = E8 + r * (E9 + r * (E10 + r * (E11 + r * (E12 + r * E13))))
        p = 1.0 + r * (1.0 + r * (E2 + r * (E3 + r * (E4 + r * (E5 + r * (E6 + r * (E7 + r * high)))))))
        bits[i] = (bits[i] + 1023) << 52  # the integer k becomes the exponent of 2**k
        out[i] = out[i] * p


@_compiled
def _tanh(x, out):  # type: ignore[no-untyped-def]
    """tanh by the exponential: right to a unit of rounding of 1, which is what a flux needs."""
    if not _all_below(x, 300.0):
        for i in range(x.size):
            out[i] = math.tanh(x[i])
        return
    _exponential(x, out, 2.0)
    for i in range(x.size):
        out[i] = 1.0 - 2.0 / (out[i] + 1.0)


@_compiled
def run_tape(code, registers):  # type: ignore[no-untyped-def]
    """Every instruction over the whole grid. The numbers are those of `tape.OPCODES`."""
    for k in range(code.shape[0]):
        op = code[k, 0]
        out, x, y = registers[code[k, 1]], registers[code[k, 2]], registers[code[k, 3]]
        n = out.size
        if op == 0:
            for i in range(n):
                out[i] = x[i] + y[i]
        elif op == 1:
            for i in range(n):
                out[i] = x[i] - y[i]
        elif op == 2:
            for i in range(n):
                out[i] = x[i] * y[i]
        elif op == 3:
            for i in range(n):
                out[i] = x[i] / y[i]
        elif op == 4:
            for i in range(n):
                out[i] = x[i] ** y[i]
        elif op == 5:
            for i in range(n):
                out[i] = -x[i]
        elif op == 6:
            _sine(x, out, 0.0)
        elif op == 7:
            _sine(x, out, 1.0)
        elif op == 11:
            _tanh(x, out)
        elif op == 12:
            _exponential(x, out, 1.0)
        elif op == 14:
            for i in range(n):
                out[i] = np.sqrt(x[i])
        elif op == 15:
            for i in range(n):
                out[i] = abs(x[i])
        elif op == 17:
            for i in range(n):
                out[i] = np.sign(x[i])
        else:
            for i in range(n):
                if op == 8:
                    out[i] = math.tan(x[i])
                elif op == 9:
                    out[i] = math.sinh(x[i])
                elif op == 10:
                    out[i] = math.cosh(x[i])
                elif op == 13:
                    out[i] = np.log(x[i])
                else:
                    out[i] = math.atan(x[i])


@_compiled
def _upwind(a, b, c):  # type: ignore[no-untyped-def]
    """WENO3 value at the interface after b, from upwind to downwind, classical weights."""
    left, right = b - a, c - b
    smooth_left = 1e-6 + left * left
    smooth_right = 1e-6 + right * right
    w_left = smooth_right * smooth_right
    w_right = 2.0 * smooth_left * smooth_left
    return b + 0.5 * (w_left * left + w_right * right) / (w_left + w_right)


@_compiled
def _advance(u, base, keep, step, result, code, registers, speed, right, left, edge, out):  # type: ignore[no-untyped-def]
    """One Runge-Kutta stage: out = base + keep * ((u - base) - step * (flux differences of u)).

    Written as a correction of ``base``, because 1/3 + 2/3 is not 1 in binary and the mean would drift.
    """
    n = u.size
    registers[0, :] = u
    run_tape(code, registers)
    flux = registers[result]
    for i in range(n):
        right[i + 2] = 0.5 * (flux[i] + speed * u[i])
        left[i + 2] = 0.5 * (flux[i] - speed * u[i])
    for i in range(2):
        right[i], right[n + 2 + i] = right[n + i], right[2 + i]
        left[i], left[n + 2 + i] = left[n + i], left[2 + i]
    for i in range(n):  # interface i lies between points i - 1 and i
        edge[i] = _upwind(right[i], right[i + 1], right[i + 2]) + _upwind(
            left[i + 3], left[i + 2], left[i + 1]
        )
    edge[n] = edge[0]
    for i in range(n):
        out[i] = base[i] + keep * ((u[i] - base[i]) - step * (edge[i + 1] - edge[i]))


@_compiled
def _largest_slope(u, code, result, registers):  # type: ignore[no-untyped-def]
    """max |f'| between the smallest and the largest u, sampled; NaN if u or a slope is not finite.

    Between, not at: a shock of a non-convex flux passes through values that no grid point has.
    """
    low, high = u[0], u[0]
    for value in u:
        if not abs(value) < np.inf:
            return np.nan
        low, high = min(low, value), max(high, value)
    for i in range(u.size):
        registers[0, i] = low + (high - low) * (i / (u.size - 1.0))
    run_tape(code, registers)
    largest = 0.0
    for slope in registers[result]:
        if not abs(slope) <= largest:  # lets a NaN through
            largest = abs(slope)
    return largest


@_compiled
def _fill(registers, parameters, numbers):  # type: ignore[no-untyped-def]
    for i in range(parameters.size):
        registers[1 + i, :] = parameters[i]
    for i in range(numbers.size):
        registers[1 + parameters.size + i, :] = numbers[i]


@_compiled
def _finite(u):  # type: ignore[no-untyped-def]
    return _all_below(u, np.inf)


@_compiled
def integrate(  # type: ignore[no-untyped-def]
    initial, times, parameters, speeds, local, cfl, max_steps,
    code, numbers, size, result, slope_code, slope_numbers, slope_size, slope_result,
    frames, status, reached, needed,
):  # fmt: skip
    """Fill ``frames`` (rows, frame, n). Status: 0 done, 1 not finite, 2 too many steps, 3 too fast.

    ``local`` takes the splitting speed from the range of each state anew; otherwise it is ``speeds[row]``.
    The step is the largest that speed * step <= cfl * dx allows and that divides what is left until the
    next frame, so frame times are exact. The condition is renewed at every step when the speed is local,
    and at every frame otherwise. A slope a little above the given speed shortens the step; one far above
    it (``needed`` says which) ends the trajectory: the scheme would go on, and be wrong.
    """
    rows, n = initial.shape
    registers, slopes = np.empty((size, n)), np.empty((slope_size, n))
    right, left, edge = np.empty(n + 4), np.empty(n + 4), np.empty(n + 1)
    u, one, two = np.empty(n), np.empty(n), np.empty(n)
    for row in range(rows):
        _fill(registers, parameters[row], numbers)
        _fill(slopes, parameters[row], slope_numbers)
        u[:] = initial[row]
        t, steps = 0.0, 0
        for frame in range(times.shape[1]):
            end, fresh, since = times[row, frame], True, 0
            speed = fastest = speeds[row]
            while t < end and status[row] == 0:
                if local or fresh:
                    fastest = _largest_slope(u, slope_code, slope_result, slopes)
                    if local:
                        speed = max(fastest, 1e-12)
                    elif fastest > 1.05 * speed:
                        status[row] = 3
                    needed[row] = fastest
                    fastest, fresh = max(fastest, speed), False
                count = np.ceil((end - t) * fastest * n / cfl * (1.0 - 1e-9))
                if status[row] != 0 or not fastest < np.inf:
                    status[row] = max(status[row], 1)
                elif steps + count > max_steps:
                    status[row] = 2
                else:
                    dt = (end - t) / max(count, 1.0)
                    s = dt * n
                    _advance(u, u, 1.0, s, result, code, registers, speed, right, left, edge, one)
                    _advance(one, u, 0.25, s, result, code, registers, speed, right, left, edge, two)
                    _advance(two, u, 2.0 / 3.0, s, result, code, registers, speed, right, left, edge, one)
                    u[:] = one
                    t = end if count <= 1.0 else t + dt
                    steps += 1
                    since += 1
                    # A NaN never goes away again: looking now and then is enough, and cheaper.
                    if (since % 8 == 0 or t >= end) and not _finite(u):
                        status[row] = 1
            if status[row] != 0:
                break
            frames[row, frame, :] = u
            reached[row] = t
        if status[row] != 0:
            reached[row] = t


@_compiled
def matrix_product(rows, matrix, out):  # type: ignore[no-untyped-def]
    """out = rows @ matrix, every sum in one fixed order, in strips of columns that fit the cache.

    A row's result does not depend on the other rows nor on the number of threads, as BLAS's does; nor
    does this ever wait for threads that somebody else keeps busy.
    """
    count, nodes = rows.shape
    columns, strip = matrix.shape[1], 128
    for first in range(0, columns, strip):
        width = min(strip, columns - first)
        for i in range(count):
            total = out[i, first : first + width]
            total[:] = 0.0
            for m in range(0, nodes - nodes % 4, 4):
                w0, w1, w2, w3 = rows[i, m], rows[i, m + 1], rows[i, m + 2], rows[i, m + 3]
                k0 = matrix[m, first : first + width]
                k1 = matrix[m + 1, first : first + width]
                k2 = matrix[m + 2, first : first + width]
                k3 = matrix[m + 3, first : first + width]
                for j in range(width):
                    total[j] += (w0 * k0[j] + w1 * k1[j]) + (w2 * k2[j] + w3 * k3[j])
            for m in range(nodes - nodes % 4, nodes):
                for j in range(width):
                    total[j] += rows[i, m] * matrix[m, first + j]


@_compiled
def _upwind_slopes(a, b, c, floor):  # type: ignore[no-untyped-def]
    """`_upwind` with a given floor of smoothness, and its derivatives by a and c (all three add up to 1)."""
    left, right = b - a, c - b
    smooth_left = floor + left * left
    smooth_right = floor + right * right
    w_left = smooth_right * smooth_right
    w_right = 2.0 * smooth_left * smooth_left
    share = 0.5 / (w_left + w_right)
    half = share * (w_left * left + w_right * right)
    by_left = share * (w_left + 8.0 * smooth_left * left * (right - 2.0 * half))
    by_right = share * (w_right + 4.0 * smooth_right * right * (left - 2.0 * half))
    return b + half, -by_left, by_right


@_compiled
def _spline_flux(u, low, width, coefficients, at_knots, knots, tangents, flux, slope, basis):  # type: ignore[no-untyped-def]
    """f and f' at u for f' a cubic B-spline, constant beyond its range.

    ``at_knots`` (intervals + 1, coefficients) has the integrals of the basis from ``low`` to each knot, and
    ``knots`` f there. With ``tangents``, ``basis`` becomes the derivative of f by the coefficients.
    """
    intervals = at_knots.shape[0] - 1
    sixth, per_width = 1.0 / 6.0, 1.0 / width
    for i in range(u.size):
        place = (u[i] - low) * per_width
        inside = place if place > 0.0 else 0.0  # a NaN has a place too; it comes back by ``beyond``
        inside = min(inside, float(intervals))
        k = min(int(inside), intervals - 1)
        s = inside - k
        r = 1.0 - s
        b0, b1 = sixth * r * r * r, sixth * (4.0 - s * s * (6.0 - 3.0 * s))
        b2, b3 = sixth * (4.0 - r * r * (6.0 - 3.0 * r)), sixth * s * s * s
        # Integrals over the part of the interval left of u; beyond the range the end's slope goes on.
        beyond = place - inside
        i0, i3 = 0.25 * (sixth - r * b0), 0.25 * s * b3
        i1 = sixth * s * (4.0 - s * s * (2.0 - 0.75 * s))
        i2 = s - i0 - i1 - i3
        i0, i1 = width * (i0 + beyond * b0), width * (i1 + beyond * b1)
        i2, i3 = width * (i2 + beyond * b2), width * (i3 + beyond * b3)
        c0, c1, c2, c3 = coefficients[k], coefficients[k + 1], coefficients[k + 2], coefficients[k + 3]
        slope[i] = (b0 * c0 + b1 * c1) + (b2 * c2 + b3 * c3)
        flux[i] = knots[k] + ((i0 * c0 + i1 * c1) + (i2 * c2 + i3 * c3))
        if tangents:
            for j in range(coefficients.size):
                basis[j, i] = at_knots[k, j]
            basis[k, i] += i0
            basis[k + 1, i] += i1
            basis[k + 2, i] += i2
            basis[k + 3, i] += i3


@_compiled
def step_spline_law(  # type: ignore[no-untyped-def]
    initial, low, width, coefficients, at_knots, speed, viscosity, floor, count, tangents, out, slopes
):
    """One frame of u_t + f(u)_x = viscosity * u_xx on a circle of length 1 for each row, in ``count`` steps.

    f' is the spline of `_spline_flux`; the scheme is that of `integrate`, in units of its ``speed``, with
    central differences for the viscous flux. With ``tangents``, ``slopes`` (rows, coefficients + 2, n)
    becomes the derivative of ``out`` by the coefficients, by the logarithm of the speed and by the
    viscosity, carried along through every stage.
    """
    rows, n = initial.shape
    m = coefficients.size
    kinds = m + 2 if tangents else 0
    flux, slope, basis = np.empty(n), np.empty(n), np.zeros((m + 2, n))
    right, left, edge = np.empty(n + 4), np.empty(n + 4), np.empty(n + 1)
    ra, rb, rc, la, lb, lc = np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    base, u = np.empty(n), np.empty(n)
    d_base, d_u = np.zeros((kinds, n)), np.zeros((kinds, n))
    d_right, d_left, d_edge = np.empty(n + 4), np.empty(n + 4), np.empty(n + 1)
    step, half, thickness = n / count * speed, 0.5 / speed, n / speed
    knots = np.zeros(at_knots.shape[0])
    for k in range(knots.size):
        for j in range(m):
            knots[k] += at_knots[k, j] * coefficients[j]
    for row in range(rows):
        u[:] = initial[row]
        d_u[:] = 0.0
        for stage in range(3 * count):
            if stage % 3 == 0:
                base[:] = u
                d_base[:] = d_u
            keep = 1.0 if stage % 3 == 0 else 0.25 if stage % 3 == 1 else 2.0 / 3.0
            _spline_flux(u, low, width, coefficients, at_knots, knots, tangents, flux, slope, basis)
            for i in range(n):
                right[i + 2] = half * flux[i] + 0.5 * u[i]
                left[i + 2] = half * flux[i] - 0.5 * u[i]
                basis[m, i] = -flux[i]  # f / speed has this derivative by the logarithm, over the speed
            for i in range(2):
                right[i], right[n + 2 + i] = right[n + i], right[2 + i]
                left[i], left[n + 2 + i] = left[n + i], left[2 + i]
            for i in range(n):
                from_left, ra[i], rc[i] = _upwind_slopes(right[i], right[i + 1], right[i + 2], floor)
                from_right, la[i], lc[i] = _upwind_slopes(left[i + 3], left[i + 2], left[i + 1], floor)
                rb[i], lb[i] = 1.0 - ra[i] - rc[i], 1.0 - la[i] - lc[i]
                edge[i] = from_left + from_right
            edge[n] = edge[0]
            for t in range(kinds):
                d, start, direct = d_u[t], d_base[t], basis[t]
                for i in range(n):
                    both = half * (slope[i] * d[i] + direct[i])
                    d_right[i + 2] = both + 0.5 * d[i]
                    d_left[i + 2] = both - 0.5 * d[i]
                for i in range(2):
                    d_right[i], d_right[n + 2 + i] = d_right[n + i], d_right[2 + i]
                    d_left[i], d_left[n + 2 + i] = d_left[n + i], d_left[2 + i]
                for i in range(n):
                    d_edge[i] = (ra[i] * d_right[i] + rb[i] * d_right[i + 1] + rc[i] * d_right[i + 2]) + (
                        la[i] * d_left[i + 3] + lb[i] * d_left[i + 2] + lc[i] * d_left[i + 1]
                    )
                if viscosity > 0.0:
                    d_edge[0] -= viscosity * thickness * (d[0] - d[n - 1])
                    for i in range(1, n):
                        d_edge[i] -= viscosity * thickness * (d[i] - d[i - 1])
                if t == m:
                    for i in range(n):
                        d_edge[i] += edge[i]
                elif t == m + 1:
                    d_edge[0] -= thickness * (u[0] - u[n - 1])
                    for i in range(1, n):
                        d_edge[i] -= thickness * (u[i] - u[i - 1])
                d_edge[n] = d_edge[0]
                for i in range(n):
                    d[i] = start[i] + keep * ((d[i] - start[i]) - step * (d_edge[i + 1] - d_edge[i]))
            # The viscous flux joins only now: unlike the other, it does not depend on the speed.
            if viscosity > 0.0:
                edge[0] -= viscosity * thickness * (u[0] - u[n - 1])
                for i in range(1, n):
                    edge[i] -= viscosity * thickness * (u[i] - u[i - 1])
                edge[n] = edge[0]
            for i in range(n):
                u[i] = base[i] + keep * ((u[i] - base[i]) - step * (edge[i + 1] - edge[i]))
        out[row] = u
        for t in range(kinds):
            slopes[row, t] = d_u[t]
