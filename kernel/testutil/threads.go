// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	"runtime"
	"testing"

	"weir/kernel/ethtool"
	"weir/kernel/napi"
	"weir/kernel/rtnl"
)

// NeedReceiveThreads skips a test where the kernel lacks what a device under test is prepared with
// (tester/rfc2544/forwarder): threads that receive for a veth device and can be kept on the last
// processor, before all other programs.
func NeedReceiveThreads(t testing.TB) {
	t.Helper()
	for _, thread := range ReceiveThreads(t, "threads") {
		Need(t, "real-time threads", napi.Schedule(thread, runtime.NumCPU()-1, 1))
	}
}

// ReceiveThreads makes a namespace with a veth pair for this test alone and returns the threads
// that receive for its end "in", one at least. Where the kernel has none, it skips the test.
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
