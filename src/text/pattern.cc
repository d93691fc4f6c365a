#include "pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <new>
#include <stdexcept>

#include "phasor/core/check.h"

namespace phasor::text {
namespace {

constexpr std::size_t kLargestStack = std::size_t{8} << 20;  // of machine code that backtracks, bytes

// What matching writes to. One for each thread: a pattern is used by several at once.
struct Workplace {
  Workplace()
      : data(pcre2_match_data_create(1, nullptr)),
        context(pcre2_match_context_create(nullptr)),
        stack(pcre2_jit_stack_create(std::size_t{32} << 10, kLargestStack, nullptr)) {
    if (data == nullptr || context == nullptr) throw std::bad_alloc();
    if (stack != nullptr) pcre2_jit_stack_assign(context, nullptr, stack);  // null where there is no JIT
  }
  ~Workplace() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;

  pcre2_match_data* data;
  pcre2_match_context* context;
  pcre2_jit_stack* stack;
};

std::string message_of(int error) {
  unsigned char text[256];
  if (pcre2_get_error_message(error, text, sizeof text) < 0) return "error " + std::to_string(error);
  return reinterpret_cast<const char*>(text);
}

}  // namespace

void Pattern::Free::operator()(void* code) const { pcre2_code_free(static_cast<pcre2_code*>(code)); }

Pattern::Pattern(const std::string& expression) {
  const std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)> context(
      pcre2_compile_context_create(nullptr), &pcre2_compile_context_free);
  if (context == nullptr) throw std::bad_alloc();
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  pcre2_set_bsr(context.get(), PCRE2_BSR_UNICODE);
  int error = 0;
  PCRE2_SIZE at = 0;
  // As in Oniguruma, ^ and $ match at lines, and \C, which splits characters, is nothing.
  constexpr std::uint32_t kOptions = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
  code_ = std::shared_ptr<void>(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(),
                                              kOptions, &error, &at, context.get()),
                                Free());
  if (code_ == nullptr) throw std::invalid_argument(message_of(error));
  fast_ = pcre2_jit_compile(static_cast<pcre2_code*>(code_.get()), PCRE2_JIT_COMPLETE) == 0;
}

std::optional<Match> Pattern::find(std::string_view text, std::size_t from) const {
  thread_local const Workplace workplace;
  const auto* code = static_cast<const pcre2_code*>(code_.get());
  const auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  const int found =
      fast_ ? pcre2_jit_match(code, subject, text.size(), from, 0, workplace.data, workplace.context)
            : pcre2_match(code, subject, text.size(), from, PCRE2_NO_UTF_CHECK, workplace.data, workplace.context);
  if (found == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (found < 0)
    fail("Tokenizer", "a regular expression of the file: ", message_of(found), ", expected one that can be matched");
  const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(workplace.data);
  // \K and look-behind could give a match that begins behind its end or before `from`: neither is Oniguruma's.
  if (ends[0] > ends[1] || ends[0] < from)
    fail("Tokenizer", "a regular expression of the file: a match that ends before it begins, expected none");
  return Match{ends[0], ends[1]};
}

}  // namespace phasor::text
