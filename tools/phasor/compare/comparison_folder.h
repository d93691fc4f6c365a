// The folder of a comparison. What was decided at its beginning and every finished trial are files of their own, so an
// interrupted comparison continues where it stopped:
//
//   settings.json           what is compared
//   trials/NAME.json        the results of a finished trial
//   trials/NAME/            its model, and how far its training has come
//   results.json, report.html
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "phasor/core/folder_lock.h"
#include "report/comparison.h"

namespace phasor::tool {

class ComparisonFolder {
 public:
  // Held by this process alone: a second comparison in the same folder is refused.
  explicit ComparisonFolder(std::filesystem::path folder);

  // The settings to work with: `wanted` in a new folder, else those of the folder, which must be the same but for what
  // a later call cannot know: steps that a budget decided, date and machine. The command is the last one.
  report::Settings settle(const report::Settings& wanted) const;
  std::optional<report::Settings> begun() const;

  std::filesystem::path trial_folder(const std::string& trial) const { return folder_ / "trials" / trial; }
  // The results of a trial that is done. Those of other settings are refused.
  std::optional<report::Comparison> trial(const std::string& trial, const report::Settings& settings) const;
  void add_trial(const std::string& trial, const report::Comparison& found) const;

  // The path of the page.
  std::string write_report(const report::Comparison& comparison) const;

 private:
  std::filesystem::path folder_;
  FolderLock lock_;
};

// Trials of different seeds and rates as one comparison: of each encoding the rate with the least validation loss at
// the end, in the mean over seeds; scores of all its seeds. `names` are in the order of the command.
report::Comparison merge_trials(const report::Settings& settings, const std::vector<std::string>& names,
                                const std::vector<report::Comparison>& trials);

}  // namespace phasor::tool
