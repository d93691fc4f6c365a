// Standard deviations of log variances, sigma = exp(l / 2), and their gradients. Tensors [B, H, T, D] with contiguous
// rows; arithmetic is float.
#pragma once

#include "phasor/core/dtype.h"
#include "phasor/core/tensor.h"

namespace phasor {

// sigma is 0 from l = -139.3 down and e^88 from l = 176 up, so that it is finite in float; NaN stays NaN. It is float
// for every storage of l: scores depend on differences of sigmas. sigma may be a log_variance of float itself.
void sigma_forward(TensorView<const float, 4> log_variance, TensorView<float, 4> sigma);
void sigma_forward(TensorView<const bf16, 4> log_variance, TensorView<float, 4> sigma);
void sigma_forward(TensorView<const f16, 4> log_variance, TensorView<float, 4> sigma);

// From the gradient of sigma to that of the log variance: grad * sigma / 2, in place or rounded into `to`.
void sigma_backward(TensorView<const float, 4> sigma, TensorView<float, 4> grad);
void sigma_backward(TensorView<const float, 4> sigma, TensorView<const float, 4> grad, TensorView<bf16, 4> to);
void sigma_backward(TensorView<const float, 4> sigma, TensorView<const float, 4> grad, TensorView<f16, 4> to);

}  // namespace phasor
