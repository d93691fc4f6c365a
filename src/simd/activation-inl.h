// Activations with their derivatives, in lanes: relu, silu, gelu.
#if defined(PHASOR_SIMD_ACTIVATION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_SIMD_ACTIVATION_INL_H_
#undef PHASOR_SIMD_ACTIVATION_INL_H_
#else
#define PHASOR_SIMD_ACTIVATION_INL_H_
#endif

#include "simd/exp-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The logistic function s = 1 / (1 + e^-x), and 1 - s without cancellation. e^-|x| never overflows.
template <class V>
struct Logistic {
  V value, rest;
};

template <class D, class V = hn::Vec<D>>
HWY_INLINE Logistic<V> LogisticOf(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const auto negative = hn::Lt(x, hn::Zero(d));
  const V e = Exp(d, hn::Neg(hn::Abs(x)));
  const V large = hn::Div(one, hn::Add(one, e)), small = hn::Mul(e, large);
  return {hn::IfThenElse(negative, small, large), hn::IfThenElse(negative, large, small)};
}

// A function of x and its derivative.
template <class V>
struct Activated {
  V value, slope;
};

// relu(x) = max(x, 0), whose derivative at 0 is 0 as in torch. NaN stays NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE Activated<V> Relu(D d, V x) {
  const V zero = hn::Zero(d);
  return {hn::IfThenZeroElse(hn::Lt(x, zero), x), hn::IfThenZeroElse(hn::Le(x, zero), hn::Set(d, 1.0f))};
}

// silu(x) = x s(x); silu' = s + x s (1 - s).
template <class D, class V = hn::Vec<D>>
HWY_INLINE Activated<V> Silu(D d, V x) {
  const Logistic<V> s = LogisticOf(d, x);
  const V value = hn::Mul(x, s.value);
  return {value, hn::MulAdd(value, s.rest, s.value)};
}

// gelu(x) = x P(x), with P the normal distribution function; gelu' = P(x) + x p(x), with its density p.
//
// P(-a) = e^(-a^2/2) q Q(q) for a >= 0, with q = 1 / (1 + 0.35 a) and Q a polynomial of degree 8, which interpolates at
// Chebyshev nodes for a <= 12; relative error 4e-8. The square is halved in two parts, the first of them exact: a with
// half its bits, so that e^(-a^2/2) is right where a^2 is large.
template <class D, class V = hn::Vec<D>>
HWY_INLINE Activated<V> GeluErf(D d, V x) {
  const hn::RebindToUnsigned<D> du;
  const V one = hn::Set(d, 1.0f), minus_half = hn::Set(d, -0.5f);
  const V a = hn::Min(hn::Abs(x), hn::Set(d, 16.0f));  // from 12 on, e^(-a^2/2) is 0
  const V cut = hn::BitCast(d, hn::And(hn::BitCast(du, a), hn::Set(du, 0xfffff000u)));
  const V e =
      Exp(d, hn::Mul(minus_half, hn::Mul(cut, cut)), hn::Mul(minus_half, hn::Mul(hn::Sub(a, cut), hn::Add(a, cut))));
  const V q = hn::Div(one, hn::MulAdd(hn::Set(d, 0.35f), a, one)), s = hn::Sub(q, hn::Set(d, 0.5f));
  const V p = Polynomial(d, s, -0.0292683933f, 0.0275267344f, 0.0441497527f, -0.0561646894f, -0.0817344412f,
                         0.0818721801f, 0.284395486f, 0.34299159f, 0.253244281f);
  const V below = hn::Mul(hn::Mul(e, q), p);
  const V distribution = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), below, hn::Sub(one, below));
  const V density = hn::Mul(e, hn::Set(d, 0.39894228f));  // 1 / sqrt(2 pi)
  return {hn::Mul(x, distribution), hn::MulAdd(x, density, distribution)};
}

// gelu(x) ~ x (1 + tanh(u)) / 2 = x s(2u), u = sqrt(2/pi) (x + 0.044715 x^3) (Hendrycks, Gimpel 2016). The rounding of
// 2u is one of s: where s is small, its relative error is 2u times that of 2u.
template <class D, class V = hn::Vec<D>>
HWY_INLINE Activated<V> GeluTanh(D d, V x) {
  constexpr float kLinear = 1.59576912f, kCubic = 0.0713548163f;                 // 2 sqrt(2/pi), times 0.044715
  const V bounded = hn::Max(hn::Set(d, -16.0f), hn::Min(x, hn::Set(d, 16.0f)));  // s(2u) is 0 or 1 beyond
  const V square = hn::Mul(bounded, bounded);
  const V twice_u = hn::Mul(bounded, hn::MulAdd(hn::Set(d, kCubic), square, hn::Set(d, kLinear)));
  const V slope_of_twice_u = hn::MulAdd(hn::Set(d, 3.0f * kCubic), square, hn::Set(d, kLinear));
  const Logistic<V> s = LogisticOf(d, twice_u);
  const V value = hn::Mul(x, s.value);
  return {value, hn::MulAdd(hn::Mul(value, s.rest), slope_of_twice_u, s.value)};
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
