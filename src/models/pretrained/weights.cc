// The weights of a model from the tensors of a folder: found by name, cut, transposed, converted or used in place.
#include <algorithm>
#include <optional>
#include <utility>

#include "architecture.h"
#include "phasor/core/parallel.h"

namespace phasor::pretrained {
namespace {

// ---- names ----

struct Match {
  std::string layer, rest;
};

// "blocks.#.ffn.*" matches "blocks.3.ffn.fc1.weight", with layer 3 and rest "fc1.weight".
std::optional<Match> match(std::string_view pattern, std::string_view name) {
  Match result;
  while (!pattern.empty() && pattern != "*") {
    if (pattern.front() == '#') {
      const std::size_t digits = name.find_first_not_of("0123456789");
      result.layer = name.substr(0, digits);
      name.remove_prefix(result.layer.size());
    } else {
      if (name.empty() || name.front() != pattern.front()) return std::nullopt;
      name.remove_prefix(1);
    }
    pattern.remove_prefix(1);
  }
  if (pattern.empty() && !name.empty()) return std::nullopt;
  result.rest = name;
  return result;
}

std::string filled(std::string_view pattern, const Match& with) {
  std::string name(pattern);
  if (const std::size_t at = name.find('#'); at != std::string::npos) name.replace(at, 1, with.layer);
  if (name.ends_with('*')) name.replace(name.size() - 1, 1, with.rest);
  return name;
}

// As the first files of BERT have it.
std::string older_name(const std::string& name) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {{"LayerNorm.weight", "LayerNorm.gamma"},
                                                                      {"LayerNorm.bias", "LayerNorm.beta"}};
  for (const auto& [newer, older] : kNames)
    if (name.ends_with(newer)) return name.substr(0, name.size() - newer.size()) + std::string(older);
  return name;
}

struct Source {
  const TensorName* row;
  std::string tensor;  // its name in the files
};

// Where the files have each weight.
class Sources {
 public:
  Sources(const TensorFolder& files, std::span<const TensorName> names, std::string_view prefix)
      : files_(files), names_(names), prefix_(prefix) {
    has_prefix_ = std::ranges::any_of(files.tensors(),
                                      [&](const StoredTensor& tensor) { return tensor.name.starts_with(prefix); });
  }

  // The first row whose tensor is there, or else the first one.
  Source of(std::string_view weight) const {
    std::optional<Source> first;
    for (const TensorName& row : names_)
      if (const auto found = match(row.ours, weight)) {
        Source source{&row, stored_name(filled(row.theirs, *found))};
        if (files_.find(source.tensor) != nullptr) return source;
        if (!first) first = std::move(source);
      }
    PHASOR_CHECK(first.has_value(), kReader, weight, ": has no name in files of this architecture, expected one");
    return *std::move(first);
  }
  const StoredTensor* find(std::string_view weight) const { return files_.find(of(weight).tensor); }

 private:
  std::string stored_name(std::string name) const {
    if (name.starts_with(prefix_) && !has_prefix_) name.erase(0, prefix_.size());
    std::string older = older_name(name);
    return files_.find(name) == nullptr && files_.find(older) != nullptr ? older : name;
  }

  const TensorFolder& files_;
  std::span<const TensorName> names_;
  std::string_view prefix_;
  bool has_prefix_ = false;
};

// ---- parts ----

// The rows of a stored tensor that a weight has: `pieces` times `size` rows, `step` rows apart.
struct Rows {
  std::int64_t first, size, pieces = 1, step = 0;
  std::int64_t all;  // rows of the tensor
};

Rows rows_of(Part part, std::int64_t rows, std::int64_t stored, const TransformerConfig& config) {
  const std::int64_t size = config.head_dim, heads = config.num_attention_heads;
  const std::int64_t q = heads * size, k = config.num_key_value_heads * size;
  const auto of_head = [&](std::int64_t place) {
    return Rows{.first = place * size, .size = size, .pieces = heads, .step = 3 * size, .all = 3 * q};
  };
  switch (part) {
    case Part::whole:
      return {.first = 0, .size = rows, .all = rows};
    case Part::last_rows:
      return {.first = stored - rows, .size = rows, .all = std::max(stored, rows)};
    case Part::first_half:
      return {.first = 0, .size = rows, .all = 2 * rows};
    case Part::second_half:
      return {.first = rows, .size = rows, .all = 2 * rows};
    case Part::query:
      return {.first = 0, .size = q, .all = q + 2 * k};
    case Part::key:
      return {.first = q, .size = k, .all = q + 2 * k};
    case Part::value:
      return {.first = q + k, .size = k, .all = q + 2 * k};
    case Part::query_of_head:
      return of_head(0);
    case Part::key_of_head:
      return of_head(1);
    case Part::value_of_head:
      return of_head(2);
  }
  fail(kReader, "part: not known, expected one of Part");
}

std::string shape_of(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); i++) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

// ---- one weight ----

// A weight to be read: everything was checked.
struct Job {
  NamedWeight weight;
  const StoredTensor* tensor;
  const TensorName* row;
  Rows rows;
  std::int64_t columns;
  StoredType kept;  // F32, or BF16 or F16 where the weight stays narrow
};

Job make_job(const NamedWeight& weight, const TensorName& row, const StoredTensor& tensor,
             const TransformerConfig& config, const std::filesystem::path& folder) {
  const std::vector<std::int64_t>& shape = weight.weight->shape();
  const bool transposed = row.transposed && shape.size() == 2;
  const std::int64_t stored = tensor.shape.empty()              ? 0
                              : transposed || shape.size() == 1 ? tensor.shape.back()
                                                                : tensor.shape.front();
  const Rows rows = rows_of(row.part, shape.at(0), stored, config);
  std::vector<std::int64_t> expected = shape;
  if (shape.size() == 1 && tensor.shape.size() == 2 && tensor.shape[0] == 1) expected.insert(expected.begin(), 1);
  expected[expected.size() - shape.size()] = rows.all;  // biases of Marian's heads are [1, n]
  if (transposed) std::swap(expected[0], expected[1]);
  PHASOR_CHECK(tensor.shape == expected && rows.first >= 0, kReader, folder.string(), ": ", tensor.name, " is ",
               shape_of(tensor.shape), ", expected ", shape_of(expected));
  PHASOR_CHECK(rows.size * rows.pieces == shape[0], kReader, folder.string(), ": ", tensor.name, ": ", shape[0],
               " rows of ", weight.name, ", expected ", rows.size * rows.pieces);
  return {.weight = weight,
          .tensor = &tensor,
          .row = &row,
          .rows = rows,
          .columns = shape.size() == 2 ? shape[1] : 1,
          .kept = StoredType::f32};
}

// Some rows of a stored tensor.
StoredTensor rows_in(const StoredTensor& tensor, std::int64_t first, std::int64_t count, std::int64_t columns) {
  const auto bytes = static_cast<std::size_t>(type_bytes(tensor.type) * columns);
  return {tensor.name,
          tensor.type,
          {count, columns},
          tensor.bytes.subspan(static_cast<std::size_t>(first) * bytes, static_cast<std::size_t>(count) * bytes)};
}

// Keeps the values where they lie, unless the file has them at an odd address.
template <class T>
bool keep_rows(const StoredTensor& rows, const std::shared_ptr<const TensorFolder>& files, Weight& weight) {
  const std::byte* bytes = rows.bytes.data();
  if (reinterpret_cast<std::uintptr_t>(bytes) % alignof(T) != 0) return false;
  weight.keep(std::shared_ptr<const T>(files, reinterpret_cast<const T*>(bytes)));
  return true;
}

bool keep_in_place(const Job& job, const std::shared_ptr<const TensorFolder>& files) {
  const bool whole = job.rows.pieces == 1 && !job.row->transposed && job.row->plus == 0.0f;
  if (!whole || job.kept != job.tensor->type) return false;
  const StoredTensor rows = rows_in(*job.tensor, job.rows.first, job.rows.size, job.columns);
  Weight& weight = *job.weight.weight;
  if (job.kept == StoredType::bf16) return keep_rows<bf16>(rows, files, weight);
  if (job.kept == StoredType::f16) return keep_rows<f16>(rows, files, weight);
  return keep_rows<float>(rows, files, weight);
}

// F32, or how the weight may stay narrow: as the file has it, or rounded.
StoredType kept_type(const NamedWeight& weight, StoredType stored, Precision precision) {
  if (precision == Precision::float32 || !Transformer::may_be_narrow(weight)) return StoredType::f32;
  if (precision == Precision::bf16 || stored == StoredType::bf16) return StoredType::bf16;
  return stored == StoredType::f16 ? StoredType::f16 : StoredType::f32;
}

// Rows of the stored tensor's transpose.
void read_transposed(const Job& job, const TensorFolder& files, std::span<float> to) {
  const std::int64_t all = job.rows.all, columns = job.columns;
  std::vector<float> stored(static_cast<std::size_t>(all * columns));
  files.read_values(*job.tensor, stored);
  for (std::int64_t r = 0; r < job.rows.size; r++)
    for (std::int64_t c = 0; c < columns; c++)
      to[static_cast<std::size_t>(r * columns + c)] = stored[static_cast<std::size_t>(c * all + job.rows.first + r)];
}

void read_weight(const Job& job, const TensorFolder& files) {
  const std::span<float> values = job.weight.weight->value();
  if (job.row->transposed && job.columns > 1) {
    read_transposed(job, files, values);
  } else {
    const auto count = static_cast<std::size_t>(job.rows.size * job.columns);
    for (std::int64_t piece = 0; piece < job.rows.pieces; piece++)
      files.read_values(rows_in(*job.tensor, job.rows.first + piece * job.rows.step, job.rows.size, job.columns),
                        values.subspan(static_cast<std::size_t>(piece) * count, count));
  }
  for (float& value : values) value += job.row->plus;
  if (job.kept == StoredType::bf16) job.weight.weight->round_to_bf16();
  if (job.kept == StoredType::f16) job.weight.weight->round_to_f16();
}

}  // namespace

void load_weights(Transformer& model, std::span<const TensorName> names, std::string_view prefix,
                  const std::shared_ptr<const TensorFolder>& files, const std::filesystem::path& folder,
                  Precision precision, std::vector<std::string>& used) {
  const TransformerConfig& config = model.config();
  const bool tied = config.tie_word_embeddings && config.output_head;
  const Sources sources(*files, names, prefix);
  std::vector<Job> jobs;
  for (const NamedWeight& weight : model.weights()) {
    const Source source = sources.of(weight.name);
    const StoredTensor* found = files->find(source.tensor);
    // A tied table may be stored as the head.
    if (found == nullptr && tied && weight.name == "embedding.weight") found = sources.find("head.weight");
    const StoredTensor& tensor = found ? *found : files->at(source.tensor);
    Job job = make_job(weight, *source.row, tensor, config, folder);
    job.kept = kept_type(weight, tensor.type, precision);
    used.push_back(tensor.name);
    if (!keep_in_place(job, files)) jobs.push_back(std::move(job));
  }
  if (tied) used.push_back(sources.of("head.weight").tensor);
  parallel_for(std::ssize(jobs), [&](std::int64_t i) { read_weight(jobs[static_cast<std::size_t>(i)], *files); });
}

bool has_head_of_its_own(const TensorFolder& files, std::span<const TensorName> names, std::string_view prefix) {
  const Sources sources(files, names, prefix);
  const StoredTensor *table = sources.find("embedding.weight"), *head = sources.find("head.weight");
  if (table == nullptr || head == nullptr) return false;
  return table->type != head->type || table->shape != head->shape || !std::ranges::equal(table->bytes, head->bytes);
}

void check_all_used(const TensorFolder& files, const std::filesystem::path& folder, std::vector<std::string> used,
                    std::span<const std::string_view> unused) {
  std::ranges::sort(used);
  for (const StoredTensor& tensor : files.tensors()) {
    const bool known =
        std::ranges::binary_search(used, tensor.name) ||
        std::ranges::any_of(unused, [&](std::string_view part) { return tensor.name.find(part) != std::string::npos; });
    PHASOR_CHECK(known, kReader, folder.string(), ": has a tensor ", tensor.name, ", which this architecture does not");
  }
}

}  // namespace phasor::pretrained
