// SPDX-License-Identifier: Apache-2.0

// Package sysctl reads and writes the network settings (/proc/sys/net) of one namespace.
//
// Many keys under net., such as net.core.netdev_budget, belong to the machine and not to a
// namespace. The package rejects them: the kernel hides them in a namespace or makes them
// read-only, and for the initial namespace, where all keys are writable, the package checks a fresh
// namespace first.
package sysctl

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"weir/internal/fault"
	"weir/kernel/netns"
)

const root = "/proc/sys/"

// machineOnly is the error for a key that exists only in the initial namespace.
const machineOnly = root + "net/core/netdev_budget"

// Set writes value to key inside ns; nil means the calling thread's own namespace. A key has dots,
// or slashes if a device name contains a dot.
func Set(ns *netns.Namespace, key, value string) error {
	err := within(ns, key, func(file string) error {
		if err := perNamespace(file); err != nil {
			return err
		}
		return os.WriteFile(file, []byte(value), 0)
	})
	if err != nil {
		return fmt.Errorf("set %s to %q: %w", key, value, err)
	}
	return nil
}

// Get reads key inside ns, without the trailing newline.
func Get(ns *netns.Namespace, key string) (string, error) {
	var content []byte
	err := within(ns, key, func(file string) (err error) {
		content, err = os.ReadFile(file)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("read %s: %w", key, err)
	}
	return strings.TrimRight(string(content), "\n"), nil
}

// within calls f with key's file inside ns: the kernel resolves it by the thread that opens it.
func within(ns *netns.Namespace, key string, f func(file string) error) error {
	file, err := fileOf(key)
	if err != nil {
		return err
	}
	return ns.Do(func() error { return f(file) })
}

func fileOf(key string) (string, error) {
	relative := key
	if !strings.Contains(key, "/") {
		relative = strings.ReplaceAll(key, ".", "/")
	}
	if !strings.HasPrefix(relative, "net/") || path.Clean(relative) != relative {
		return "", fault.New(fault.Usage, "name a key under net.", "%q is not a network setting", key)
	}
	return root + relative, nil
}

// perNamespace reports whether the file is a setting of the current namespace and not of the
// machine.
func perNamespace(file string) error {
	if _, err := os.Stat(machineOnly); err == nil {
		return netns.Fresh(func() error { return writable(general(file)) })
	}
	return writable(file)
}

func writable(file string) error {
	info, err := os.Stat(file)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("not a setting of a namespace: %w", err)
	}
	if err == nil && info.Mode()&0o200 == 0 {
		return fmt.Errorf("not a setting that a namespace may change: %w", os.ErrPermission)
	}
	return err
}

// general replaces the device in a per-device key, because a fresh namespace has other devices.
func general(file string) string {
	part := strings.Split(file, "/")
	if len(part) == 8 && (part[5] == "conf" || part[5] == "neigh") {
		part[6] = "default"
	}
	return strings.Join(part, "/")
}
