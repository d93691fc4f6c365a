// Standard deviations of log variances, sigma = exp(l / 2), and the way of gradients back. Tensors [B, H, T, D] with
// contiguous rows; arithmetic is float.
#pragma once

#include "phasor/core/dtype.h"
#include "phasor/core/tensor.h"

namespace phasor {

// sigma is 0 from l = -139.3 down and e^88 from l = 176 up, so that it is finite in float; NaN stays NaN. sigma may be
// log_variance itself.
void sigma_forward(TensorView<const float, 4> log_variance, TensorView<float, 4> sigma);
void sigma_forward(TensorView<const bf16, 4> log_variance, TensorView<bf16, 4> sigma);
void sigma_forward(TensorView<const f16, 4> log_variance, TensorView<f16, 4> sigma);

// grad = grad * sigma / 2, in place: from the gradient of sigma to that of the log variance.
void sigma_backward(TensorView<const float, 4> sigma, TensorView<float, 4> grad);
void sigma_backward(TensorView<const bf16, 4> sigma, TensorView<bf16, 4> grad);
void sigma_backward(TensorView<const f16, 4> sigma, TensorView<f16, 4> grad);

}  // namespace phasor
