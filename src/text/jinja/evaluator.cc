#include "evaluator.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <utility>

#include "builtins.h"

namespace phasor::text::jinja {
namespace {

// What a template may do, so that each one ends: steps and bytes of values; lists, and what is evaluated, in one
// another.
constexpr std::size_t kMostWork = 100'000'000, kWorkOfStep = 100;
constexpr int kDeepest = 50, kDeepestCall = 500;

class Evaluator {
 public:
  Evaluator(const Json& variables, std::time_t now) : now_(now) {
    scopes_.emplace_back();
    for (auto at = variables.begin(); at != variables.end(); ++at) scopes_[0][at.key()] = *at;
  }

  std::string run_all(const std::vector<Statement>& statements) {
    run(statements);
    return std::move(out_);
  }

 private:
  using Scope = std::map<std::string, Json>;
  enum class Flow { on, next, stop };

  void charge(std::size_t work, std::size_t line) {
    if ((work_ += work) > kMostWork) throw Refused{line, "more work than a chat needs, expected a template that ends"};
  }
  void charge(const Json& value, std::size_t line, int depth = 0) {
    if (depth > kDeepest) throw Refused{line, "lists in one another, expected fewer than 50"};
    charge(value.is_string() ? value.get_ref<const std::string&>().size() : kWorkOfStep, line);
    if (value.is_structured())
      for (const Json& each : value) charge(each, line, depth + 1);
  }

  // Of expressions and statements within each other, also those of macros that call one another.
  struct Depth {
    Depth(int& counter, std::size_t line) : depth(counter) {
      if (depth == kDeepestCall) throw Refused{line, "what is evaluated in one another, expected less than 500 deep"};
      depth++;
    }
    ~Depth() { depth--; }
    int& depth;
  };

  // Statements.

  Flow run(const std::vector<Statement>& statements) {
    for (const Statement& each : statements)
      if (const Flow flow = run(each); flow != Flow::on) return flow;
    return Flow::on;
  }

  Flow run(const Statement& statement) {
    const Depth depth(depth_, statement.line);
    charge(kWorkOfStep, statement.line);
    switch (statement.kind) {
      case Statement::Kind::text:
        write(statement.name, statement.line);
        break;
      case Statement::Kind::print:
        write(written(value(statement.expressions[0]), statement.line), statement.line);
        break;
      case Statement::Kind::condition:
        return run(is_true(value(statement.expressions[0])) ? statement.body : statement.otherwise);
      case Statement::Kind::loop:
        return loop(statement);
      case Statement::Kind::set:
        set(statement, value(statement.expressions[0]));
        break;
      case Statement::Kind::set_text: {
        std::string outer = std::exchange(out_, {});
        run(statement.body);
        set(statement, std::exchange(out_, std::move(outer)));
        break;
      }
      case Statement::Kind::macro:
        macros_[statement.name] = &statement;
        break;
      case Statement::Kind::block:
        return run(statement.body);
      case Statement::Kind::next:
        return Flow::next;
      case Statement::Kind::stop:
        return Flow::stop;
    }
    return Flow::on;
  }

  void write(const std::string& text, std::size_t line) {
    charge(text.size(), line);
    out_ += text;
  }

  void set(const Statement& statement, Json made) {
    if (statement.names.size() == 1) {
      scopes_.back()[statement.names[0]] = std::move(made);
      return;
    }
    Json* space = find(statement.names[0]);
    if (space == nullptr || !space->is_object())
      throw Refused{statement.line, "set " + statement.names[0] + "." + statement.names[1] + ", expected a namespace"};
    (*space)[statement.names[1]] = std::move(made);
  }

  Flow loop(const Statement& statement) {
    const Json list = loop_list(statement);
    if (list.empty()) return run(statement.otherwise);
    scopes_.emplace_back();
    Flow flow = Flow::on;
    for (std::size_t i = 0; i < list.size() && flow != Flow::stop; i++) {
      scopes_.back().clear();
      set_loop_variables(statement, list[i]);
      scopes_.back()["loop"] = loop_state(list, i);
      flow = run(statement.body);
    }
    scopes_.pop_back();
    return Flow::on;
  }

  // What the loop goes over: what its condition keeps.
  Json loop_list(const Statement& statement) {
    Json list = value(statement.expressions[0]);
    if (list.is_discarded()) return Json::array();
    if (list.is_object()) list = call_method("keys", {statement.line, {std::move(list)}, {}});
    if (!list.is_array()) throw Refused{statement.line, "a loop over " + json_text(list) + ", expected a list"};
    if (statement.expressions.size() == 1) return list;
    Json kept = Json::array();
    scopes_.emplace_back();
    for (Json& each : list) {
      set_loop_variables(statement, each);
      if (is_true(value(statement.expressions[1]))) kept.push_back(std::move(each));
    }
    scopes_.pop_back();
    return kept;
  }

  void set_loop_variables(const Statement& statement, const Json& each) {
    const std::size_t count = statement.names.size();
    if (count == 1) {
      scopes_.back()[statement.names[0]] = each;
      return;
    }
    if (!each.is_array() || each.size() != count)
      throw Refused{statement.line, "a loop over " + json_text(each) + ", expected lists of " + std::to_string(count)};
    for (std::size_t i = 0; i < count; i++) scopes_.back()[statement.names[i]] = each[i];
  }

  static Json loop_state(const Json& list, std::size_t i) {
    const std::size_t count = list.size();
    Json state = {{"index", i + 1},  {"index0", i},           {"first", i == 0},           {"last", i + 1 == count},
                  {"length", count}, {"revindex", count - i}, {"revindex0", count - i - 1}};
    if (i > 0) state["previtem"] = list[i - 1];
    if (i + 1 < count) state["nextitem"] = list[i + 1];
    return state;
  }

  // Expressions.

  // A macro sees its own variables and those of the outermost scope.
  Json* find(const std::string& name) {
    for (std::size_t i = scopes_.size(); i-- > 0;) {
      if (i > 0 && i < floor_) continue;
      const auto found = scopes_[i].find(name);
      if (found != scopes_[i].end()) return &found->second;
    }
    return nullptr;
  }

  Json value(const Expression& expression) {
    const Depth depth(depth_, expression.line);
    Json made = result(expression);
    charge(kWorkOfStep, expression.line);
    charge(made, expression.line);
    return made;
  }

  Json result(const Expression& expression) {
    switch (expression.kind) {
      case Expression::Kind::literal:
        return expression.value;
      case Expression::Kind::name:
        return *place(expression);
      case Expression::Kind::list:
        return list(expression);
      case Expression::Kind::dict:
        return dict(expression);
      case Expression::Kind::member: {
        if (const Json* found = place(expression)) return *found;
        const Json of = value(expression.parts[0]);
        return *member(of, value(expression.parts[1]), expression.line);
      }
      case Expression::Kind::slice:
        return slice(expression);
      case Expression::Kind::call:
        return call(expression);
      case Expression::Kind::filter:
        return apply_filter(expression.name, arguments(expression, 0));
      case Expression::Kind::test:
        return apply_test(expression.name, arguments(expression, 0));
      case Expression::Kind::operation:
        return operation(expression);
      case Expression::Kind::condition:
        return value(expression.parts[is_true(value(expression.parts[0])) ? 1 : 2]);
    }
    return undefined();
  }

  // Where a variable or a member of one is kept, so that not all of it is copied; or a null pointer.
  const Json* place(const Expression& expression) {
    if (expression.kind == Expression::Kind::name) {
      const Json* found = find(expression.name);
      if (found != nullptr) return found;
      return is_function(expression.name) || macros_.contains(expression.name) ? &function_ : &undefined_;
    }
    if (expression.kind != Expression::Kind::member) return nullptr;
    const Json key = value(expression.parts[1]);  // first: a call in it may move variables
    const Json* of = place(expression.parts[0]);
    return of == nullptr ? nullptr : member(*of, key, expression.line);
  }

  const Json* member(const Json& of, const Json& key, std::size_t line) const {
    if (of.is_discarded()) throw Refused{line, json_text(key) + " of what is not defined, expected a dict or a list"};
    if (of.is_object() && key.is_string()) {
      const auto found = of.find(key.get_ref<const std::string&>());
      return found == of.end() ? &undefined_ : &*found;
    }
    if (of.is_string() && key.is_number()) throw Refused{line, "a character of a text, expected one of a list"};
    if (!of.is_array() || !key.is_number_integer()) return &undefined_;
    const auto size = static_cast<std::int64_t>(of.size());
    auto index = key.get<std::int64_t>();
    if (index < 0) index += size;
    return index < 0 || index >= size ? &undefined_ : &of[static_cast<std::size_t>(index)];
  }

  Json list(const Expression& expression) {
    Json made = Json::array();
    for (const Expression& each : expression.parts) made.push_back(value(each));
    return made;
  }
  Json dict(const Expression& expression) {
    Json made = Json::object();
    for (std::size_t i = 0; i < expression.parts.size(); i += 2)
      made[text_of(value(expression.parts[i]), expression.line)] = value(expression.parts[i + 1]);
    return made;
  }
  Arguments arguments(const Expression& expression, std::size_t first) {
    Arguments found{.line = expression.line};
    const std::size_t named = expression.parts.size() - expression.keywords.size();
    for (std::size_t i = first; i < expression.parts.size(); i++) {
      Json each = value(expression.parts[i]);
      if (i < named)
        found.values.push_back(std::move(each));
      else
        found.named[expression.keywords[i - named]] = std::move(each);
    }
    return found;
  }

  Json slice(const Expression& expression) {
    const Json of = value(expression.parts[0]);
    if (!of.is_array()) throw Refused{expression.line, "a slice of " + json_text(of) + ", expected one of a list"};
    std::array<std::int64_t, 3> bounds{};
    const std::int64_t step = slice_bound(expression, 3, 1), size = static_cast<std::int64_t>(of.size());
    if (step != 1 && step != -1)
      throw Refused{expression.line, "a slice in steps of " + std::to_string(step) + ", expected 1 or -1"};
    // As Python counts: a negative bound is one from the end, and -1 stands for what is before the first.
    const std::int64_t least = step > 0 ? 0 : -1, most = step > 0 ? size : size - 1;
    for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
      const bool absent = value(expression.parts[i]).is_null();
      std::int64_t bound = slice_bound(expression, i, 0);
      if (bound < 0) bound += size;
      bounds[i] = absent ? ((i == 1) == (step > 0) ? least : most) : std::clamp(bound, least, most);
    }
    Json list = Json::array();
    for (std::int64_t i = bounds[1]; step > 0 ? i < bounds[2] : i > bounds[2]; i += step)
      list.push_back(of[static_cast<std::size_t>(i)]);
    return list;
  }
  std::int64_t slice_bound(const Expression& expression, std::size_t part, std::int64_t absent) {
    const Json bound = value(expression.parts[part]);
    if (bound.is_null()) return absent;
    if (!bound.is_number_integer())
      throw Refused{expression.line, "a slice by " + json_text(bound) + ", expected a whole number"};
    return bound;
  }

  Json call(const Expression& expression) {
    const Expression& callee = expression.parts[0];
    if (callee.kind == Expression::Kind::member) {
      Arguments all = arguments(expression, 1);
      all.values.insert(all.values.begin(), value(callee.parts[0]));
      return call_method(text_of(value(callee.parts[1]), expression.line), all);
    }
    if (callee.kind != Expression::Kind::name)
      throw Refused{expression.line, "a call of a value, expected one of a function"};
    const Arguments all = arguments(expression, 1);
    const auto macro = macros_.find(callee.name);
    if (macro != macros_.end()) return call_macro(*macro->second, all);
    return callee.name == "strftime_now" ? time_text(all) : call_function(callee.name, all);
  }

  Json call_macro(const Statement& macro, const Arguments& arguments) {
    Scope scope;
    const std::size_t with_defaults = macro.names.size() - macro.expressions.size();
    for (std::size_t i = 0; i < macro.names.size(); i++) {
      const auto named = arguments.named.find(macro.names[i]);
      scope[macro.names[i]] = i < arguments.values.size()      ? arguments.values[i]
                              : named != arguments.named.end() ? named->second
                              : i >= with_defaults             ? value(macro.expressions[i - with_defaults])
                                                               : undefined();
    }
    if (arguments.values.size() > macro.names.size())
      throw Refused{arguments.line,
                    "more arguments of " + macro.name + ", expected " + std::to_string(macro.names.size())};
    const std::size_t floor = std::exchange(floor_, scopes_.size());
    scopes_.push_back(std::move(scope));
    std::string outer = std::exchange(out_, {});
    run(macro.body);
    scopes_.pop_back();
    floor_ = floor;
    return std::exchange(out_, std::move(outer));
  }

  Json time_text(const Arguments& arguments) const {
    std::tm parts{};
    localtime_r(&now_, &parts);
    const std::string format = arguments.values.size() == 1 ? text_of(arguments.values[0], arguments.line) : "";
    std::array<char, 200> text{};
    const std::size_t size = std::strftime(text.data(), text.size(), format.c_str(), &parts);
    if (size == 0) throw Refused{arguments.line, "strftime_now, expected a format of a date"};
    return std::string(text.data(), size);
  }

  Json operation(const Expression& expression) {
    const std::string& name = expression.name;
    Json left = value(expression.parts[0]);
    if (name == "not") return !is_true(left);
    if (name == "and") return is_true(left) ? value(expression.parts[1]) : left;
    if (name == "or") return is_true(left) ? left : value(expression.parts[1]);
    if (expression.parts.size() == 1) return of_numbers(name, 0, left, expression.line);  // -x
    const Json right = value(expression.parts[1]);
    if (name == "==") return equal(left, right);
    if (name == "!=") return !equal(left, right);
    if (name == "in") return contains(right, left, expression.line);
    if (name == "not in") return !contains(right, left, expression.line);
    if (name == "~") return written(left, expression.line) + written(right, expression.line);
    if (name == "+" && left.is_string()) {
      left.get_ref<std::string&>() += text_of(right, expression.line);
      return left;
    }
    if (name == "+" && left.is_array() && right.is_array()) {
      left.insert(left.end(), right.begin(), right.end());
      return left;
    }
    return of_numbers(name, left, right, expression.line);
  }

  std::string out_{};
  std::vector<Scope> scopes_{};
  std::size_t floor_ = 0;
  std::map<std::string, const Statement*> macros_{};
  std::time_t now_;
  const Json undefined_ = undefined(), function_ = Json::binary({});  // all that one can ask of a function: it is there
  std::size_t work_ = 0;
  int depth_ = 0;
};

}  // namespace

std::string write(const std::vector<Statement>& statements, const Json& variables, std::time_t now) {
  return Evaluator(variables, now).run_all(statements);
}

}  // namespace phasor::text::jinja
