// SPDX-License-Identifier: GPL-2.0-or-later
#include "page_program.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/address.h"

namespace pib::fabric {
namespace {

using Failure = std::unexpected<std::string>;

bool is_program(const std::filesystem::path& path) {
    std::error_code error;
    return std::filesystem::is_regular_file(path, error) && ::access(path.c_str(), X_OK) == 0;
}

bool is_port(const std::string& text) {
    uint16_t number = 0;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc() && rest == text.data() + text.size();
}

// `pib` is beside pib-switch if both are installed, and two directories higher in a checkout.
std::expected<std::filesystem::path, std::string> find_pib() {
    std::error_code error;
    const auto own = std::filesystem::read_symlink("/proc/self/exe", error);
    auto installed = own.parent_path() / "pib";
    const auto checkout = own.parent_path() / "../..";
    if (!error && is_program(installed)) {
        return installed;
    }
    if (!error && is_program(checkout / "pib") &&
        std::filesystem::exists(checkout / "lab/start.py", error)) {
        return checkout / "pib";
    }
    return Failure("--http: there is no program pib beside " + own.string() +
                   ". Install the package pib-lab");
}

// Runs in the child: resets its signals, makes it end with the switch, forbids it new privileges,
// and leaves standard output to `--pcap -`.
[[noreturn]] void become(const std::vector<std::string>& words, pid_t parent) {
    std::vector<char*> argv;
    argv.reserve(words.size() + 1);
    for (const std::string& word : words) {
        argv.push_back(const_cast<char*>(word.c_str()));
    }
    argv.push_back(nullptr);
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::signal(SIGCHLD, SIG_DFL);
    ::signal(SIGPIPE, SIG_DFL);
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    ::dup2(::open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
    ::dup2(STDERR_FILENO, STDOUT_FILENO);
    if (::getppid() == parent) {
        ::execv(argv[0], argv.data());
        ::dprintf(STDERR_FILENO, "pib-switch: --http: cannot start %s: %s\n", argv[0],
                  std::strerror(errno));
    }
    ::_exit(127);
}

}  // namespace

std::expected<std::vector<std::string>, std::string> page_options(const std::string& text) {
    if (!text.empty() && text.find_first_not_of("0123456789") == std::string::npos) {
        return page_options("127.0.0.1:" + text);
    }
    const auto place = HostPort::parse(text);
    if (!place || place->host.empty()) {
        return Failure("--http " + text +
                       ": expected ADDRESS, ADDRESS:PORT or PORT, as 127.0.0.1:8470 or [::1]:8470");
    }
    if (!place->port) {
        return std::vector<std::string>{"--address", place->host};
    }
    if (!is_port(*place->port)) {
        return Failure("--http " + text + ": the port is 0 to 65535");
    }
    return std::vector<std::string>{"--address", place->host, "--port", *place->port};
}

std::string page_address_file(const std::string& control) {
    return control + ".page";
}

std::expected<void, std::string> start_page(const std::string& http, const std::string& control) {
    const auto options = page_options(http);
    if (!options) {
        return Failure(options.error());
    }
    const auto pib = find_pib();
    if (!pib) {
        return Failure(pib.error());
    }
    std::vector<std::string> words = {
        pib->string(), "web", "--control", control, "--address-file", page_address_file(control)};
    words.insert(words.end(), options->begin(), options->end());
    ::signal(SIGCHLD, SIG_IGN);  // the kernel reaps the child
    const pid_t parent = ::getpid();
    const pid_t child = ::fork();
    if (child == 0) {
        become(words, parent);
    }
    if (child < 0) {
        return Failure(std::string("--http: cannot start a process: ") + std::strerror(errno) +
                       ". Raise the limit: ulimit -u");
    }
    return {};
}

}  // namespace pib::fabric
