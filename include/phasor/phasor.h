// Every public header of the parts that are there: of those installed, or, within this project, of those that a target
// may see.
#pragma once

#include "phasor/core/check.h"
#include "phasor/core/dtype.h"
#include "phasor/core/folder_lock.h"
#include "phasor/core/folder_snapshot.h"
#include "phasor/core/input.h"
#include "phasor/core/mapped_file.h"
#include "phasor/core/memory.h"
#include "phasor/core/parallel.h"
#include "phasor/core/precision.h"
#include "phasor/core/random.h"
#include "phasor/core/simd_target.h"
#include "phasor/core/tensor.h"
#include "phasor/core/weight.h"
#include "phasor/version.h"

#if __has_include("phasor/position/plan.h")
#include "phasor/position/alibi.h"
#include "phasor/position/encoding.h"
#include "phasor/position/forms.h"
#include "phasor/position/hugging_face.h"
#include "phasor/position/learned.h"
#include "phasor/position/pairing.h"
#include "phasor/position/plan.h"
#include "phasor/position/relative.h"
#include "phasor/position/rope.h"
#include "phasor/position/rotary.h"
#include "phasor/position/sinusoidal.h"
#endif

#if __has_include("phasor/text/tokenizer.h")
#include "phasor/text/chat_template.h"
#include "phasor/text/stop_texts.h"
#include "phasor/text/tokenizer.h"
#endif

#if __has_include("phasor/attention/attention.h")
#include "phasor/attention/attention.h"
#include "phasor/attention/block_mask.h"
#include "phasor/attention/kv_cache.h"
#include "phasor/attention/merge.h"
#include "phasor/attention/option_table.h"
#include "phasor/attention/paged_kv_cache.h"
#include "phasor/attention/w2.h"
#endif

#if __has_include("phasor/layers/block.h")
#include "phasor/layers/attention_layer.h"
#include "phasor/layers/attention_projections.h"
#include "phasor/layers/block.h"
#include "phasor/layers/dropout.h"
#include "phasor/layers/embedding.h"
#include "phasor/layers/feed_forward.h"
#include "phasor/layers/initial_values.h"
#include "phasor/layers/into.h"
#include "phasor/layers/layer_cache.h"
#include "phasor/layers/linear.h"
#include "phasor/layers/loss.h"
#include "phasor/layers/norm.h"
#include "phasor/layers/output_head.h"
#include "phasor/layers/positions.h"
#include "phasor/layers/streams.h"
#include "phasor/layers/w2_attention_layer.h"
#include "phasor/layers/w2_feed_forward.h"
#include "phasor/layers/workspace.h"
#endif

#if __has_include("phasor/models/transformer.h")
#include "phasor/models/embed.h"
#include "phasor/models/encoder_decoder.h"
#include "phasor/models/generate.h"
#include "phasor/models/layer_positions.h"
#include "phasor/models/prompt_cache.h"
#include "phasor/models/safetensors.h"
#include "phasor/models/sampling.h"
#include "phasor/models/text_files.h"
#include "phasor/models/transformer.h"
#include "phasor/models/transformer_json.h"
#endif

#if __has_include("phasor/training/trainer.h")
#include "phasor/training/checkpoint.h"
#include "phasor/training/dataset.h"
#include "phasor/training/evaluation.h"
#include "phasor/training/optimizer.h"
#include "phasor/training/schedule.h"
#include "phasor/training/settings.h"
#include "phasor/training/trainer.h"
#endif
