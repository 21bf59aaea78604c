// SPDX-License-Identifier: Apache-2.0

package forwarder

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"weir/internal/fault"
	"weir/kernel/netns"
	"weir/kernel/rtnl"
	"weir/kernel/testutil"
)

// router is a namespace with the veth devices in and out.
func router(t *testing.T) *netns.Namespace {
	t.Helper()
	ns := testutil.Namespace(t, "dut")
	conn, err := rtnl.Open(ns)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, pair := range [][2]string{{"in", "in-peer"}, {"out", "out-peer"}} {
		if err := conn.AddVeth(pair[0], nil, pair[1], 0); err != nil {
			t.Fatal(err)
		}
		if err := conn.SetUp(pair[0]); err != nil {
			t.Fatal(err)
		}
	}
	return ns
}

func TestPrepareGivesTheDeviceAThreadOfItsOwn(t *testing.T) {
	ns := router(t)
	if _, err := Prepare(ns, "in", "out", runtime.NumCPU()); fault.Of(err) != fault.Testbed {
		t.Errorf("a processor that is not there: %v", err)
	}
	testutil.NeedReceiveThreads(t)
	f, err := Prepare(ns, "in", "out", 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range f.threads {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", thread))
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		fields := strings.Fields(rest) // from the third field of proc_pid_stat(5) on
		if have, policy := fields[40-3], fields[41-3]; have != fmt.Sprint(priority) || policy != "1" {
			t.Errorf("thread %d has priority %s and policy %s", thread, have, policy)
		}
	}
	if reading, err := f.Read(); err != nil || reading.Ring != vethRing {
		t.Errorf("reading %+v, %v", reading, err)
	}
}

func TestParseDrops(t *testing.T) {
	if n, err := parseDrops(" 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16"); n != 12 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := parseDrops(" 1 2 3"); err == nil {
		t.Error("a short line gave a number")
	}
}
