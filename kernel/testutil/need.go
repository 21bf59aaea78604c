// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// absent lists the missing features of each test kernel, measured: those of testkernel/build (Linux
// 7.2), and Debian's. A probe that misses another feature is wrong.
var absent = map[string]string{
	"uml": "open-sockets hfsc ip_tables xfrm jit sk_storage-updates struct_ops struct_ops-links tracing fentry kprobe tracepoint raw_tracepoint sch_bpf seccomp cpu-affinity speed instruction-clock systemd",
	"x86": "hfsc ip_tables seccomp speed instruction-clock systemd",
	// Debian's kernels. 6.1 is older than TCX (6.6), struct_ops links (6.4) and callbacks of open
	// sockets (6.12), and segments datagrams only for devices with checksum offload (before 6.11).
	// Its ifb drops packets redirected by programs. In both, programs at cgroups cannot point to
	// headers in test runs.
	"debian-6.1":  "udp-segments-without-checksums ifb delay open-sockets cgrp_storage tcx struct_ops-links dualpi2 sch_bpf ioam-encapsulation headers-of-test-runs speed instruction-clock systemd",
	"debian-6.12": "dualpi2 sch_bpf ioam-encapsulation headers-of-test-runs speed instruction-clock systemd",
}

// Need skips a test for a feature that a probe found missing (err is the reason), and fails if the
// kernel is known to have it.
func Need(t testing.TB, feature string, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if kernel := os.Getenv("TEST_KERNEL"); kernel != "" && !KnownAbsent(kernel, feature) {
		t.Fatalf("the %s test kernel is known to have %s, and the probe says: %v", kernel, feature, err)
	}
	if err := noteMissed(t.Name()); err != nil {
		t.Errorf("note that this test is skipped: %v", err)
	}
	t.Skipf("needs %s: %v", feature, err)
}

// noteMissed appends folder and name of a test to the file named by WEIR_TEST_MISSED;
// testkernel/test -m reads the tests that this kernel could not run.
func noteMissed(test string) error {
	path := os.Getenv("WEIR_TEST_MISSED")
	if path == "" || os.Getenv("TEST_KERNEL") != "" {
		return nil
	}
	folder, err := os.Getwd()
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	test, _, _ = strings.Cut(test, "/")
	_, err = fmt.Fprintf(file, "%s %s\n", folder, test)
	return errors.Join(err, file.Close())
}

// NeedInstructionClock skips a test with a result that depends on the speed and load of the CPU.
// Such tests run in the guest with a clock that counts instructions (testkernel/test -i), which
// finds them by this call.
func NeedInstructionClock(t testing.TB) {
	t.Helper()
	if os.Getenv("TEST_CLOCK") != "instructions" {
		Need(t, "instruction-clock", errors.New("CPUs differ and are shared; testkernel/test -i has a clock that counts instructions"))
	}
}

// NeedSpeed skips a test of whole testbeds under the test kernels, which are too slow for it.
func NeedSpeed(t testing.TB) {
	t.Helper()
	if os.Getenv("TEST_KERNEL") != "" {
		Need(t, "speed", errors.New("a guest of software emulation carries no testbed's load"))
	}
}

// KnownAbsent reports whether the test kernel lacks the feature; see testkernel/README.md.
func KnownAbsent(kernel, feature string) bool {
	return slices.Contains(strings.Fields(absent[kernel]), feature)
}
