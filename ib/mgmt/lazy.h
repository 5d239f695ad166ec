// SPDX-License-Identifier: GPL-2.0-or-later
// A value that usually stays T{}. Its first change allocates storage.
#pragma once

#include <memory>
#include <utility>

namespace pib::ib {

template <typename T>
class Lazy {
  public:
    Lazy() = default;
    Lazy(const Lazy& other) : value_(other ? std::make_unique<T>(*other.value_) : nullptr) {}
    Lazy(Lazy&& other) noexcept = default;
    Lazy& operator=(Lazy other) noexcept {
        std::swap(value_, other.value_);
        return *this;
    }
    ~Lazy() = default;

    // Whether the value has storage.
    explicit operator bool() const { return value_ != nullptr; }
    [[nodiscard]] const T& operator*() const { return value_ ? *value_ : kUnchanged; }
    [[nodiscard]] const T* operator->() const { return &**this; }
    // The value, to be changed; allocates its storage.
    [[nodiscard]] T& make() {
        if (!value_) [[unlikely]] {
            value_ = std::make_unique<T>();
        }
        return *value_;
    }

    bool operator==(const Lazy& other) const { return **this == *other; }

  private:
    static inline const T kUnchanged{};

    std::unique_ptr<T> value_;
};

}  // namespace pib::ib
