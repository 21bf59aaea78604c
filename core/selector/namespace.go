// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"weir/core/match"
	"weir/core/policy"
	"weir/internal/fault"
	"weir/kernel/netns"
)

// namespace matches sockets by network namespace.
var namespace = Kind{
	SelectorKind: policy.SelectorKind{
		Key: "netns", Doc: "Sockets of a network namespace, by its name in /run/netns or by its path, such as /proc/1234/ns/net. Policing requires Linux 6.15.", Sample: "",
		Parse: func(text string) (string, string, error) {
			if clean := filepath.Clean(text); text != clean || text == "." || text == ".." || !filepath.IsAbs(text) && strings.Contains(text, "/") {
				return "", "", fmt.Errorf("%q is not a network namespace: write its name in %s, or its whole path", text, netns.Dir)
			}
			return text, "network namespace " + text, nil
		},
	},
	Bind: func(_ *Host, text string) (Binding, error) {
		number, err := cookie(NamespacePath(text))
		other := errors.Is(err, netns.ErrNotNamespace)
		switch {
		case errors.Is(err, fs.ErrNotExist), other && !filepath.IsAbs(text): // under creation, or a stale file
			return Binding{Missing: noNamespace(text)}, nil
		case other:
			return Binding{}, fault.New(fault.Usage, "name one that 'ip netns list' prints, or the path of a process's own, as in /proc/1234/ns/net",
				"%s is not a network namespace", text)
		}
		return Binding{Key: match.OfNetns(number)}, err
	},
	Watch: func(_ *Host, _ []string) []string { return []string{netns.Dir} },
	Near: func(_ *Host, text string) string {
		entries, err := os.ReadDir(netns.Dir)
		if err != nil || filepath.IsAbs(text) {
			return ""
		}
		names := make([]string, len(entries))
		for i, e := range entries {
			names[i] = e.Name()
		}
		return nearName(text, names)
	},
	Inside: func(_ *Host, text string) (Inside, string, error) {
		path := NamespacePath(text)
		if _, err := os.Stat(path); err != nil {
			return Inside{}, noNamespace(text), nil
		}
		return Inside{Namespace: path, By: "the socket's network namespace"}, "", nil
	},
}

func noNamespace(text string) string { return "there is no network namespace " + text }

// NamespacePath returns the path of the network namespace of a selector.
func NamespacePath(text string) string {
	if filepath.IsAbs(text) {
		return text
	}
	return netns.Path(text)
}

// cookie returns the cookie of a network namespace (SO_NETNS_COOKIE, Linux 5.14).
func cookie(path string) (number uint64, err error) {
	ns, err := netns.OpenPath(path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = ns.Close() }()
	within := false
	err = ns.Do(func() error {
		within = true
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open socket: %w", err)
		}
		defer func() { _ = unix.Close(fd) }()
		number, err = unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
		return err
	})
	if !within && errors.Is(err, unix.EINVAL) { // of another kind
		return 0, netns.ErrNotNamespace
	}
	if err != nil {
		return 0, fmt.Errorf("read the cookie of the network namespace %s: %w", path, err)
	}
	return number, nil
}
