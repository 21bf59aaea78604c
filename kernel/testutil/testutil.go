// SPDX-License-Identifier: Apache-2.0

// Package testutil provides each privileged test with its own namespaces, with skip rules, and with
// a check for remains.
package testutil

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// NeedRoot skips a test that changes namespaces or loads BPF if it is not run as root, and fails it
// under CI. Its first use in a process removes the remains of killed test processes.
func NeedRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() == 0 {
		sweepOnce(t)
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatal("CI must run the privileged tests as root")
	}
	t.Skip("needs root: run the tests with sudo -E")
}

// Command returns the path of a program that serves as an independent peer. A missing one skips the
// test, and fails it under CI.
func Command(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	if os.Getenv("CI") != "" && os.Getenv("TEST_KERNEL") == "" {
		t.Fatalf("CI must have %s: make install-deps", name)
	}
	t.Skipf("needs the program %s: make install-deps", name)
	return ""
}

// Fetched returns the path of a program that a script of the project builds into the user's cache
// (scripts/README.md), or of the one that the environment variable names. A missing one skips the
// test, under CI too.
func Fetched(t testing.TB, variable, name, script string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Skipf("needs the program %s: %v", name, err)
		}
		path = filepath.Join(cache, "weir", name)
	}
	if _, err := os.Stat(path); err != nil {
		t.Skipf("needs the program %s (%s builds it): %v", name, script, err)
	}
	return path
}

// filterProbes are commands that succeed if the kernel has a feature.
var filterProbes = map[string][]string{"ip_tables": {"iptables-legacy", "-L", "FORWARD"}, "xfrm": {"ip", "xfrm", "policy", "list"}, "nf_tables": {"nft", "list", "ruleset"}}

// NeedFilterCommand skips a test of a shell command about packet filters if the program is missing
// or the kernel lacks the kind of filter.
func NeedFilterCommand(t testing.TB, line string) {
	t.Helper()
	words := strings.Fields(line)
	Command(t, words[0])
	for feature, probe := range filterProbes {
		if strings.Replace(words[0], "ip6tables", "iptables", 1) != probe[0] || words[0] == "ip" && words[1] != probe[1] {
			continue
		}
		var err error
		// iptables-legacy makes the table that it lists: not in the host's network namespace.
		if out, failed := exec.Command("unshare", append([]string{"--net"}, probe...)...).CombinedOutput(); failed != nil {
			err = fmt.Errorf("%s: %w: %s", strings.Join(probe, " "), failed, out)
		}
		Need(t, feature, err)
	}
}

// Rand returns a source with a logged seed, so that a failure can be repeated with WEIR_TEST_SEED.
func Rand(t testing.TB) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("WEIR_TEST_SEED"); text != "" {
		parsed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("WEIR_TEST_SEED: %v", err)
		}
		seed = parsed
	}
	t.Logf("seed: WEIR_TEST_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0x5745_4952))
}

// Eventually polls condition every few milliseconds until it holds, and fails the test after the
// limit.
func Eventually(t testing.TB, limit time.Duration, what string, condition func() bool) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(limit)
	for !condition() {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("%s did not happen within %s", what, limit)
		}
	}
}
