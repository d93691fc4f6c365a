// EXPECT_ERROR(statement, "part", ...): the statement throws std::invalid_argument whose text has every part.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <stdexcept>
#include <string>

namespace phasor {

template <class Statement>
void expect_error(const Statement& statement, const char* code, std::initializer_list<std::string> parts) {
  try {
    statement();
    ADD_FAILURE() << code << " did not throw";
  } catch (const std::invalid_argument& error) {
    for (const std::string& part : parts)
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
          << code << " threw \"" << error.what() << "\", expected it to name \"" << part << '"';
  }
}

}  // namespace phasor

#define EXPECT_ERROR(statement, ...) ::phasor::expect_error([&] { (void)(statement); }, #statement, {__VA_ARGS__})
