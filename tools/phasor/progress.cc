#include "progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

#include "table.h"

namespace phasor::tool {
namespace {

constexpr std::int64_t kLines = 10;  // of a training, where there is no terminal
constexpr double kRedrawSeconds = 0.1;

// A line that is longer would begin anew below itself each time it is drawn.
std::string cut_to_terminal(const std::string& line) {
  constexpr std::size_t kUsualWidth = 80;
  winsize size{};
  const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  const std::size_t most = (known ? size.ws_col : kUsualWidth) - 1;  // the last column may wrap
  return line.size() > most ? line.substr(0, most) : line;
}

std::string time_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::ceil(seconds));
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%lld:%02lld", static_cast<long long>(whole / 60),
                static_cast<long long>(whole % 60));
  return text.data();
}

std::string bar(double done) {
  constexpr std::size_t kWidth = 24;
  const auto filled = static_cast<std::size_t>(done * static_cast<double>(kWidth));
  return "[" + std::string(filled, '#') + std::string(kWidth - filled, '.') + "]";
}

// The mean over the last steps: single batches jump about.
double recent_loss(const std::vector<LossPoint>& losses) {
  constexpr std::size_t kSteps = 10;
  const std::size_t count = std::min(kSteps, losses.size());
  double sum = 0.0;
  for (std::size_t i = losses.size() - count; i < losses.size(); i++) sum += losses[i].train_loss;
  return count == 0 ? 0.0 : sum / static_cast<double>(count);
}

}  // namespace

Progress::Progress(std::string title, std::int64_t tokens_per_step, std::int64_t steps_done)
    : title_(std::move(title)),
      tokens_per_step_(tokens_per_step),
      first_step_(steps_done),
      steps_done_(steps_done),
      terminal_(::isatty(STDERR_FILENO) == 1),
      begin_(Clock::now()) {}

Progress::~Progress() {
  if (terminal_ && drawn_) std::fputc('\n', stderr);
}

double Progress::tokens_per_second() const {
  return static_cast<double>((steps_done_ - first_step_) * tokens_per_step_) / std::max(seconds(), 1e-9);
}

std::string Progress::line(const TrainingState& state) const {
  const std::int64_t steps = state.settings.schedule.steps;
  const double per_step = seconds() / static_cast<double>(std::max<std::int64_t>(1, steps_done_ - first_step_));
  std::array<char, 32> loss{};
  std::snprintf(loss.data(), loss.size(), "%.4f", recent_loss(state.losses));
  const std::string bar_text =
      terminal_ ? bar(static_cast<double>(steps_done_) / static_cast<double>(steps)) + " " : "";
  return title_ + "  " + bar_text + "step " + std::to_string(steps_done_) + "/" + std::to_string(steps) + "  loss " +
         loss.data() + "  " + count(std::llround(tokens_per_second())) + " tokens/s  " +
         time_text(static_cast<double>(steps - steps_done_) * per_step) + " left";
}

void Progress::show(const TrainingState& state) {
  const std::int64_t steps = state.settings.schedule.steps;
  const std::int64_t before = steps_done_ * kLines / steps;
  steps_done_ = state.steps_done;
  const bool last = steps_done_ == steps;
  if (terminal_) {
    const auto now = Clock::now();
    if (drawn_ && !last && std::chrono::duration<double>(now - last_drawn_).count() < kRedrawSeconds) return;
    std::fprintf(stderr, "\r%s\x1b[K", cut_to_terminal(line(state)).c_str());
    last_drawn_ = now;
    drawn_ = true;
  } else if (last || steps_done_ * kLines / steps != before) {
    std::fprintf(stderr, "%s\n", line(state).c_str());
  }
}

}  // namespace phasor::tool
