// The scalings: one function each from a config and a length to frequencies, and one row each in the table below.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string>
#include <utility>

#include "phasor/core/check.h"
#include "phasor/position/rope.h"
#include "rope_internal.h"

namespace phasor {
namespace {

constexpr const char* kName = "rope";
using Keys = std::span<const std::string_view>;

// Frequencies are computed in Real: double, or float to follow Hugging Face's arithmetic step by step (each operation
// rounded, a scalar divided by a tensor as reciprocal times scalar, as torch does it).

// theta^(2i/channels), the reciprocal of a plain frequency.
template <class Real>
Real period(double theta, std::int64_t channels, std::size_t i) {
  const Real exponent = static_cast<Real>(2 * i) / static_cast<Real>(channels);
  return static_cast<Real>(std::pow(static_cast<double>(static_cast<Real>(theta)), static_cast<double>(exponent)));
}

template <class Real>
std::vector<Real> spectrum(double theta, std::int64_t channels, std::int64_t count) {
  std::vector<Real> inv_freq(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < inv_freq.size(); i++) inv_freq[i] = Real(1) / period<Real>(theta, channels, i);
  return inv_freq;
}

template <class Real>
std::vector<Real> plain_spectrum(const RopeConfig& config, double theta) {
  const std::int64_t channels = rotated_channels(config);
  return spectrum<Real>(theta, channels, channels / 2);
}

double original_length(const RopeConfig& config) {
  return static_cast<double>(*config.scaling.original_max_position_embeddings);
}

void check_number(const std::optional<double>& value, std::string_view key, double least) {
  PHASOR_CHECK(!value || (std::isfinite(*value) && *value >= least), kName, key, ": ", value.value_or(0.0),
               ", expected a number of at least ", least);
}

void check_factor(const RopeConfig& config) { check_number(config.scaling.factor, "factor", 1.0); }

void check_original_length(const RopeConfig& config) {
  const std::int64_t length = config.scaling.original_max_position_embeddings.value_or(1);
  PHASOR_CHECK(length >= 1, kName, "original_max_position_embeddings: ", length, ", expected 1 or more");
}

void check_known_length(const RopeConfig& config) {
  PHASOR_CHECK(config.max_position_embeddings >= 1, kName, "max_position_embeddings: ", config.max_position_embeddings,
               ", expected 1 or more for type ", config.scaling.type);
}

// Each scaling is a struct: check, inv_freq<Real> and, unless it is 1, attention_factor.

struct Default {
  static void check(const RopeConfig&) {}
  static double attention_factor(const RopeConfig&) { return 1.0; }
  template <class Real>
  static std::vector<Real> inv_freq(const RopeConfig& config, std::int64_t) {
    return plain_spectrum<Real>(config, config.theta);
  }
};

struct Linear : Default {
  static void check(const RopeConfig& config) { check_factor(config); }
  template <class Real>
  static std::vector<Real> inv_freq(const RopeConfig& config, std::int64_t) {
    std::vector<Real> result = plain_spectrum<Real>(config, config.theta);
    for (Real& frequency : result) frequency /= static_cast<Real>(*config.scaling.factor);
    return result;
  }
};

struct Ntk : Default {
  static void check(const RopeConfig& config) {
    check_factor(config);
    PHASOR_CHECK(rotated_channels(config) > 2, kName, "rotary_dim: ", rotated_channels(config),
                 ", expected more than 2 for type ", config.scaling.type, ", whose exponent is d/(d-2)");
  }
  template <class Real>
  static std::vector<Real> inv_freq(const RopeConfig& config, std::int64_t) {
    return plain_spectrum<Real>(config,
                                ntk_aware_theta(config.theta, *config.scaling.factor, rotated_channels(config)));
  }
};

struct Dynamic : Ntk {
  static void check(const RopeConfig& config) {
    Ntk::check(config);
    check_known_length(config);
  }
  template <class Real>
  static std::vector<Real> inv_freq(const RopeConfig& config, std::int64_t length) {
    if (length <= config.max_position_embeddings) return plain_spectrum<Real>(config, config.theta);
    const auto factor = static_cast<Real>(*config.scaling.factor);
    const auto trained = static_cast<Real>(config.max_position_embeddings);
    const Real stretch = factor * static_cast<Real>(length) / trained - static_cast<Real>(*config.scaling.factor - 1.0);
    const auto growth = static_cast<Real>(ntk_aware_theta(1.0, stretch, rotated_channels(config)));
    return plain_spectrum<Real>(config, static_cast<Real>(config.theta) * growth);
  }
};

struct Yarn {
  static void check(const RopeConfig& config) {
    const RopeScaling& scaling = config.scaling;
    check_factor(config);
    check_original_length(config);
    check_number(scaling.attention_factor, "attention_factor", 0.0);
    check_number(scaling.beta_fast, "beta_fast", 0.0);
    check_number(scaling.beta_slow, "beta_slow", 0.0);
    check_number(scaling.mscale, "mscale", 0.0);
    check_number(scaling.mscale_all_dim, "mscale_all_dim", 0.0);
    PHASOR_CHECK(beta_fast(scaling) >= beta_slow(scaling), kName, "beta_fast: ", beta_fast(scaling),
                 ", expected at least beta_slow ", beta_slow(scaling));
  }

  static double attention_factor(const RopeConfig& config) {
    const RopeScaling& scaling = config.scaling;
    if (scaling.attention_factor) return *scaling.attention_factor;
    const double factor = *scaling.factor;
    const double mscale = scaling.mscale.value_or(0.0), all_dim = scaling.mscale_all_dim.value_or(0.0);
    if (mscale != 0.0 && all_dim != 0.0) return yarn_magnitude(factor, mscale) / yarn_magnitude(factor, all_dim);
    return yarn_magnitude(factor, 1.0);
  }

  template <class Real>
  static std::vector<Real> inv_freq(const RopeConfig& config, std::int64_t) {
    const auto [low, high] = blended_pairs(config);
    const auto factor = static_cast<Real>(*config.scaling.factor);
    std::vector<Real> result(static_cast<std::size_t>(rotated_channels(config) / 2));
    for (std::size_t i = 0; i < result.size(); i++) {
      const Real way = (static_cast<Real>(i) - static_cast<Real>(low)) / static_cast<Real>(high - low);
      const Real keep = Real(1) - std::clamp(way, Real(0), Real(1));
      const Real turn = period<Real>(config.theta, rotated_channels(config), i);
      result[i] = Real(1) / (factor * turn) * (Real(1) - keep) + Real(1) / turn * keep;
    }
    return result;
  }

 private:
  // 0 counts as not given, as in Hugging Face.
  static double given_or(const std::optional<double>& value, double otherwise) {
    return value.value_or(0.0) == 0.0 ? otherwise : *value;
  }
  static double beta_fast(const RopeScaling& scaling) { return given_or(scaling.beta_fast, 32.0); }
  static double beta_slow(const RopeScaling& scaling) { return given_or(scaling.beta_slow, 1.0); }

  // Pairs up to the first are kept, from the second on interpolated, blended between.
  static std::pair<double, double> blended_pairs(const RopeConfig& config) {
    const RopeScaling& scaling = config.scaling;
    const auto channels = static_cast<double>(rotated_channels(config));
    // The pair that makes `rotations` revolutions over the original length.
    const auto pair_of = [&](double rotations) {
      return channels * std::log(original_length(config) / (rotations * 2.0 * std::numbers::pi)) /
             (2.0 * std::log(config.theta));
    };
    double low = pair_of(beta_fast(scaling)), high = pair_of(beta_slow(scaling));
    if (scaling.truncate.value_or(true)) {
      low = std::floor(low);
      high = std::ceil(high);
    }
    low = std::max(low, 0.0);
    high = std::min(high, scaling.clamp_to_pairs.value_or(false) ? channels / 2.0 - 1.0 : channels - 1.0);
    return {low, low == high ? high + 0.001 : high};
  }
};

struct Longrope {
  static void check(const RopeConfig& config) {
    const RopeScaling& scaling = config.scaling;
    check_factor(config);
    check_original_length(config);
    check_number(scaling.attention_factor, "attention_factor", 0.0);
    if (!scaling.factor && !scaling.attention_factor) check_known_length(config);
    PHASOR_CHECK(original_length(config) > 1.0, kName, "original_max_position_embeddings: ", original_length(config),
                 ", expected above 1 for type longrope, which divides by its logarithm");
    check_list(config, scaling.short_factor, "short_factor");
    check_list(config, scaling.long_factor, "long_factor");
  }

  static double attention_factor(const RopeConfig& config) {
    const RopeScaling& scaling = config.scaling;
    if (scaling.attention_factor) return *scaling.attention_factor;
    const double original = original_length(config);
    const double factor =
        scaling.factor ? *scaling.factor : static_cast<double>(config.max_position_embeddings) / original;
    return factor <= 1.0 ? 1.0 : std::sqrt(1.0 + std::log(factor) / std::log(original));
  }

  template <class Real>
  static std::vector<Real> inv_freq(const RopeConfig& config, std::int64_t length) {
    const bool is_long = length > *config.scaling.original_max_position_embeddings;
    const std::vector<double>& stretch = is_long ? config.scaling.long_factor : config.scaling.short_factor;
    std::vector<Real> result(stretch.size());
    for (std::size_t i = 0; i < result.size(); i++)
      result[i] = Real(1) / (static_cast<Real>(stretch[i]) * period<Real>(config.theta, rotated_channels(config), i));
    return result;
  }

 private:
  static void check_list(const RopeConfig& config, const std::vector<double>& list, std::string_view key) {
    const auto pairs = static_cast<std::size_t>(rotated_channels(config) / 2);
    PHASOR_CHECK(list.size() == pairs, kName, key, ": ", list.size(), " numbers, expected ", pairs,
                 ", one for each pair");
    for (const double value : list)
      PHASOR_CHECK(std::isfinite(value) && value > 0.0, kName, key, ": contains ", value, ", expected numbers above 0");
  }
};

struct Llama3 : Default {
  static void check(const RopeConfig& config) {
    const RopeScaling& scaling = config.scaling;
    check_factor(config);
    check_original_length(config);
    PHASOR_CHECK(std::isfinite(*scaling.low_freq_factor) && *scaling.low_freq_factor > 0.0, kName,
                 "low_freq_factor: ", *scaling.low_freq_factor, ", expected a number above 0");
    // Equal factors leave nothing to blend; Llama 4 Scout has it so.
    PHASOR_CHECK(std::isfinite(*scaling.high_freq_factor) && *scaling.high_freq_factor >= *scaling.low_freq_factor,
                 kName, "high_freq_factor: ", *scaling.high_freq_factor, ", expected at least low_freq_factor ",
                 *scaling.low_freq_factor);
  }

  template <class Real>
  static std::vector<Real> inv_freq(const RopeConfig& config, std::int64_t) {
    const double low = *config.scaling.low_freq_factor, high = *config.scaling.high_freq_factor;
    const double original = original_length(config);
    const auto factor = static_cast<Real>(*config.scaling.factor);
    std::vector<Real> result = plain_spectrum<Real>(config, config.theta);
    for (Real& frequency : result) {
      const Real wavelength = Real(1) / frequency * static_cast<Real>(2.0 * std::numbers::pi);
      if (wavelength < static_cast<Real>(original / high)) continue;
      if (wavelength > static_cast<Real>(original / low)) {
        frequency /= factor;
        continue;
      }
      const Real turns = Real(1) / wavelength * static_cast<Real>(original);
      const Real keep = high == low ? Real(1) : (turns - static_cast<Real>(low)) / static_cast<Real>(high - low);
      frequency = (Real(1) - keep) * frequency / factor + keep * frequency;
    }
    return result;
  }
};

struct Proportional : Default {
  static void check(const RopeConfig& config) {
    check_factor(config);
    PHASOR_CHECK(config.head_dim % 2 == 0, kName, "head_dim: ", config.head_dim, ", expected an even number");
  }
  template <class Real>
  static std::vector<Real> inv_freq(const RopeConfig& config, std::int64_t) {
    std::vector<Real> result = spectrum<Real>(config.theta, config.head_dim, rotated_channels(config) / 2);
    for (Real& frequency : result) frequency /= static_cast<Real>(config.scaling.factor.value_or(1.0));
    result.resize(static_cast<std::size_t>(config.head_dim / 2), Real(0));
    return result;
  }
};

// Not a scaling, but computed in the same way: the plain spectrum of half the channels for each axis, or one spectrum
// divided between both.
struct TwoAxes : Default {
  template <class Real>
  static std::vector<Real> inv_freq(const RopeConfig& config, std::int64_t) {
    const std::int64_t pairs = rotated_channels(config) / 2;
    const bool anew = config.axes == AxisLayout::axial;
    std::vector<Real> result(static_cast<std::size_t>(pairs));
    for (std::size_t i = 0; i < result.size(); i++) {
      const std::size_t axis = i / (result.size() / 2), within = i % (result.size() / 2);
      result[i] = Real(1) / (anew ? period<Real>(config.theta, pairs, within)
                                  : period<Real>(config.theta, 2 * pairs, 2 * within + axis));
    }
    return result;
  }
};

template <class Scaling>
RopeFrequencies frequencies(const RopeConfig& config, std::int64_t length) {
  RopeFrequencies result;
  result.attention_factor = Scaling::attention_factor(config);
  if (config.angles == Angles::exact) {
    result.inv_freq = Scaling::template inv_freq<double>(config, length);
  } else {
    const std::vector<float> rounded = Scaling::template inv_freq<float>(config, length);
    result.inv_freq.assign(rounded.begin(), rounded.end());
  }
  return result;
}

// ---- the table ----

constexpr std::string_view kFactor[] = {"factor"};
constexpr std::string_view kYarn[] = {"factor", "original_max_position_embeddings"};
constexpr std::string_view kYarnOptional[] = {"attention_factor", "beta_fast", "beta_slow",     "mscale",
                                              "mscale_all_dim",   "truncate",  "clamp_to_pairs"};
constexpr std::string_view kLongrope[] = {"original_max_position_embeddings", "short_factor", "long_factor"};
constexpr std::string_view kLongropeOptional[] = {"attention_factor", "factor"};
constexpr std::string_view kLlama3[] = {"factor", "original_max_position_embeddings", "low_freq_factor",
                                        "high_freq_factor"};

constexpr std::array<RopeType, 8> kTypes{{
    {"default",
     "w = theta^(-2i/R)",
     "Su et al. 2021, arXiv 2104.09864",
     true,
     {},
     {},
     Default::check,
     frequencies<Default>},
    {"linear",
     "w / factor",
     "Chen et al. 2023, arXiv 2306.15595",
     true,
     kFactor,
     {},
     Linear::check,
     frequencies<Linear>},
    {"ntk",
     "theta' = theta factor^(R/(R-2))",
     "bloc97 2023, NTK-aware scaled RoPE",
     false,
     kFactor,
     {},
     Ntk::check,
     frequencies<Ntk>},
    {"dynamic",
     "theta' = theta (factor L/Lmax - (factor-1))^(R/(R-2)), L = max(length, Lmax)",
     "emozilla 2023, dynamically scaled RoPE",
     true,
     kFactor,
     {},
     Dynamic::check,
     frequencies<Dynamic>},
    {"yarn",
     "w (ramp/factor + 1-ramp), ramp over the pairs that rotate beta_fast .. beta_slow times in L0; cos, sin "
     "times 0.1 ln(factor) + 1",
     "Peng et al. 2023, arXiv 2309.00071", true, kYarn, kYarnOptional, Yarn::check, frequencies<Yarn>},
    {"longrope",
     "w / short_factor[i], or / long_factor[i] when length > L0; cos, sin times sqrt(1 + ln(factor)/ln(L0))",
     "Ding et al. 2024, arXiv 2402.13753", true, kLongrope, kLongropeOptional, Longrope::check, frequencies<Longrope>},
    {"llama3",
     "w ((1-s)/factor + s), s = clamp((L0 w/2pi - low)/(high - low), 0, 1)",
     "Llama 3.1, arXiv 2407.21783",
     true,
     kLlama3,
     {},
     Llama3::check,
     frequencies<Llama3>},
    {"proportional",
     "theta^(-2i/D)/factor for the first R/2 pairs of the whole head, 0 for the others",
     "Barbero et al. 2024, arXiv 2410.06205 (p-RoPE)",
     true,
     {},
     kFactor,
     Proportional::check,
     frequencies<Proportional>},
}};

}  // namespace

double ntk_aware_theta(double theta, double factor, std::int64_t rotary_dim) {
  PHASOR_CHECK(rotary_dim > 2, "ntk_aware_theta", "rotary_dim: ", rotary_dim, ", expected more than 2");
  return theta * std::pow(factor, static_cast<double>(rotary_dim) / static_cast<double>(rotary_dim - 2));
}

RopeFrequencies two_axis_frequencies(const RopeConfig& config) { return frequencies<TwoAxes>(config, 0); }

std::span<const RopeType> rope_types() { return kTypes; }

const RopeType& rope_type(std::string_view name) {
  std::string known;
  for (const RopeType& type : kTypes) {
    if (type.name == name) return type;
    known += (known.empty() ? "" : ", ") + std::string(type.name);
  }
  fail(kName, "type: \"", name, "\", expected one of ", known);
}

}  // namespace phasor
