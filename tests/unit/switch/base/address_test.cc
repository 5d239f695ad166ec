// SPDX-License-Identifier: GPL-2.0-or-later
// Addresses limit the peers of a socket: permissions and group of a path, plain TCP on loopback.
#include "base/address.h"

#include <grp.h>
#include <sched.h>
#include <sys/fsuid.h>
#include <sys/inotify.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace pib::test {
namespace {

using fabric::Address;
using fabric::SocketRules;

struct Folder {
    std::string path;
    Folder() {
        char name[] = "/tmp/pib-address-test-XXXXXX";
        path = ::mkdtemp(name);
    }
    ~Folder() { std::filesystem::remove_all(path); }
};

std::string error_of(const std::string& text, const SocketRules& rules = {}) {
    const auto sockets = fabric::listen_on(*Address::parse(text), rules);
    return sockets ? "" : sockets.error();
}

std::set<std::string> names_in(const Folder& folder) {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path)) {
        names.insert(entry.path().filename());
    }
    return names;
}

}  // namespace

TEST_CASE("address: each kind of text is parsed") {
    for (const char* text : {"unix:/tmp/x", "tcp:7", "tcp:host:7", "tcp:[::1]:7", "tls:7",
                             "tls:host:7", "tls:[::1]:7"}) {
        const auto address = Address::parse(text);
        REQUIRE(address);
        CHECK(address->to_string() == text);
    }
    CHECK(Address::parse("tls:host:7")->kind == Address::Kind::kTls);
    for (const char* text : {"", "unix:", "tcp:", "tls:", "tls:host:", "udp:host:7", "host:7",
                             "tcp:[::1:7", "tcp:[::1]7", "tcp:::1:7", "tcp:[::1]"}) {
        INFO(text);
        CHECK_FALSE(Address::parse(text));
    }
}

TEST_CASE("address: a socket's path gets the requested mode and group") {
    const Folder folder;
    const std::string path = folder.path + "/socket", text = "unix:" + path;
    struct stat info{};
    {
        const auto sockets = fabric::listen_on(*Address::parse(text));
        REQUIRE(sockets);
        REQUIRE(::stat(path.c_str(), &info) == 0);
        CHECK((info.st_mode & 0777) == 0660);
    }
    // The last of the process's groups, because a socket would have its primary group in any case.
    std::vector<gid_t> groups(static_cast<size_t>(::getgroups(0, nullptr)));
    REQUIRE(::getgroups(static_cast<int>(groups.size()), groups.data()) >= 0);
    const group* member = groups.empty() ? ::getgrgid(::getgid()) : ::getgrgid(groups.back());
    REQUIRE(member != nullptr);
    const gid_t wanted = member->gr_gid;
    const auto sockets = fabric::listen_on(
        *Address::parse(text), {.mode = 0620, .group = member->gr_name, .plain_tcp = false});
    REQUIRE(sockets);
    REQUIRE(::stat(path.c_str(), &info) == 0);
    CHECK((info.st_mode & 0777) == 0620);
    CHECK(info.st_gid == wanted);
}

TEST_CASE("address: a socket whose group cannot be set is removed") {
    const Folder folder;
    const std::string path = folder.path + "/socket";
    const auto error = error_of(
        "unix:" + path, {.mode = 0660, .group = "no group is called that", .plain_tcp = false});
    CHECK(error.find("groupadd") != std::string::npos);
    CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("address: a path appears when its socket listens") {
    const Folder folder;
    const std::string path = folder.path + "/socket";
    const fabric::UniqueFd watch(::inotify_init1(IN_CLOEXEC));
    REQUIRE(watch);
    REQUIRE(::inotify_add_watch(watch.get(), folder.path.c_str(), IN_CREATE | IN_MOVED_TO) >= 0);
    const auto sockets = fabric::listen_on(*Address::parse("unix:" + path));
    REQUIRE(sockets);
    alignas(inotify_event) char events[4096];
    const ssize_t length = ::read(watch.get(), events, sizeof(events));
    uint32_t seen = 0;
    for (ssize_t at = 0; at < length;) {
        const auto* event = reinterpret_cast<const inotify_event*>(events + at);
        seen |= std::string(event->name) == "socket" ? event->mask : 0;
        at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
    }
    CHECK(seen == IN_MOVED_TO);
    CHECK(fabric::connect_unix(path));
    CHECK(names_in(folder) == std::set<std::string>{"socket"});
}

TEST_CASE("address: a path is taken over only from a dead process") {
    const Folder folder;
    const std::string path = folder.path + "/socket", text = "unix:" + path;
    CHECK(error_of(text).empty());
    const auto sockets = fabric::listen_on(*Address::parse(text));
    REQUIRE(sockets);
    CHECK(error_of(text) ==
          "another process listens on " + path + ": end it, or give another path");
    CHECK(fabric::connect_unix(path));
    const std::string file = folder.path + "/file";
    std::ofstream(file) << "words";
    CHECK(error_of("unix:" + file) ==
          file + ": File exists: give a path where this user can create a socket");
    CHECK(names_in(folder) == std::set<std::string>{"file", "socket"});
    CHECK(std::filesystem::file_size(file) == 5);
}

TEST_CASE("address: remove_file() leaves a socket that has replaced the dead one") {
    const Folder folder;
    const std::string path = folder.path + "/socket";
    const auto address = *Address::parse("unix:" + path);
    REQUIRE(fabric::listen_on(address));  // closes the socket at once, and leaves its file
    const auto dead = fabric::file_at(path);
    REQUIRE(dead);
    const auto next = fabric::listen_on(address);
    REQUIRE(next);
    CHECK(fabric::file_at(path) != dead);
    const auto removed = fabric::remove_file(path, *dead);
    REQUIRE_FALSE(removed);
    CHECK(removed.error() ==
          "another process listens on " + path + ": end it, or give another path");
    CHECK(fabric::connect_unix(path));
    CHECK(names_in(folder) == std::set<std::string>{"socket"});
    const auto present = fabric::file_at(path);
    REQUIRE(present);
    CHECK(fabric::remove_file(path, *present));
    CHECK(fabric::remove_file(path, *present));
    CHECK(names_in(folder).empty());
}

TEST_CASE("address: a socket that another user has left stays, and the error says so") {
    const Folder folder;
    const std::string path = folder.path + "/socket", text = "unix:" + path;
    REQUIRE(::chmod(folder.path.c_str(), 01777) == 0);
    if (::geteuid() != 0) {
        SKIP("only root can become another user");
    }
    REQUIRE(fabric::listen_on(*Address::parse(text)));  // closes the socket at once
    const std::string advice =
        ": remove this socket as its owner, if no process listens on it, or give another path";
    for (const auto& [mode, why] :
         {std::pair(0600, "Permission denied"), std::pair(0666, "Operation not permitted")}) {
        REQUIRE(::chmod(path.c_str(), static_cast<mode_t>(mode)) == 0);
        std::string error;
        // setfsuid() changes only the user of its thread.
        std::thread([&] {
            constexpr uid_t kNobody = 65534;
            ::setfsuid(kNobody);
            error = error_of(text);
        }).join();
        CHECK(error == path + ": " + why + advice);
        CHECK(names_in(folder) == std::set<std::string>{"socket"});
    }
}

TEST_CASE("address: listen_on() does not wait for a listener whose backlog is full") {
    const Folder folder;
    const std::string path = folder.path + "/socket";
    const fabric::UniqueFd busy(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    path.copy(at.sun_path, sizeof(at.sun_path) - 1);
    const auto* address = reinterpret_cast<const sockaddr*>(&at);
    REQUIRE(::bind(busy.get(), address, sizeof(at)) == 0);
    REQUIRE(::listen(busy.get(), 0) == 0);
    std::vector<fabric::UniqueFd> waiting;  // connections that fill the backlog
    do {
        waiting.emplace_back(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
        REQUIRE(waiting.size() < 10);
    } while (::connect(waiting.back().get(), address, sizeof(at)) == 0);
    CHECK(error_of("unix:" + path) ==
          "another process listens on " + path + ": end it, or give another path");
}

TEST_CASE("address: plain TCP beyond this host needs consent") {
    for (const char* text :
         {"tcp:0.0.0.0:0", "tcp:192.0.2.1:9", "tcp:[::]:0", "tcp:[2001:db8::1]:9"}) {
        INFO(text);
        CHECK(error_of(text).find("--plain-tcp") != std::string::npos);
        const auto refused = fabric::resolve(*Address::parse(text));
        REQUIRE_FALSE(refused);
        CHECK(refused.error().find("tls:") != std::string::npos);
        CHECK(fabric::resolve(*Address::parse(text), {.mode = 0, .group = {}, .plain_tcp = true}));
        CHECK(fabric::resolve(*Address::parse("tls" + std::string(text).substr(3))));
    }
    CHECK(error_of("tcp:0.0.0.0:0", {.mode = 0, .group = {}, .plain_tcp = true}).empty());
    CHECK(error_of("tls:0.0.0.0:0").empty());
    for (const char* text : {"tcp:0", "tcp:127.0.0.1:0", "tcp:127.9.8.7:0"}) {
        CHECK(error_of(text).empty());
    }
    CHECK(fabric::resolve(*Address::parse("tcp:[::1]:9")));
    CHECK_FALSE(fabric::resolve(*Address::parse("tcp:[::ffff:192.0.2.1]:9")));
}

TEST_CASE("address: plain TCP needs consent if one of a name's addresses leaves this host") {
    const Folder folder;
    const std::string hosts = folder.path + "/hosts";
    std::ofstream(hosts) << "127.0.0.1 mixed.example\n192.0.2.1 mixed.example\n";
    std::optional<std::string> error;
    // The thread has an /etc/hosts of its own.
    std::thread([&] {
        if (::unshare(CLONE_NEWNS) == 0 &&
            ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
            ::mount(hosts.c_str(), "/etc/hosts", nullptr, MS_BIND, nullptr) == 0) {
            const auto found = fabric::resolve(*Address::parse("tcp:mixed.example:9"));
            error = found ? "" : found.error();
        }
    }).join();
    if (!error) {
        SKIP("mount namespaces cannot be made");
    }
    CHECK(error->find("--plain-tcp") != std::string::npos);
}

}  // namespace pib::test
