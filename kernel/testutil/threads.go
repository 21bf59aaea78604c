// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	"runtime"
	"testing"

	"weir/kernel/ethtool"
	"weir/kernel/napi"
	"weir/kernel/rtnl"
)

// NeedReceiveThreads skips a test if the kernel cannot prepare a device under test
// (tester/rfc2544/forwarder): receive threads of a veth device, pinned to the last CPU, before all
// other programs.
func NeedReceiveThreads(t testing.TB) {
	t.Helper()
	for _, thread := range ReceiveThreads(t, "threads") {
		Need(t, "real-time threads", napi.Schedule(thread, runtime.NumCPU()-1, 1))
	}
}

// ReceiveThreads creates a namespace with a veth pair for this test alone and returns the receive
// threads of its end "in", at least one. It skips the test if the kernel has none.
func ReceiveThreads(t testing.TB, label string) []int {
	t.Helper()
	ns := Namespace(t, label)
	conn, err := rtnl.Open(ns)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.AddVeth("in", nil, "out", 0); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetUp("in"); err != nil {
		t.Fatal(err)
	}
	if err := ethtool.SetFeatures(ns, "in", map[string]bool{"gro": true}); err != nil {
		t.Fatal(err)
	}
	threads, err := napi.Thread(ns, "in")
	Need(t, "napi-threads", err)
	return threads
}
