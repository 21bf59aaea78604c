package napi_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"weir/internal/kernel/ethtool"
	"weir/internal/kernel/napi"
	"weir/internal/kernel/rtnl"
	"weir/internal/testutil"
)

// receives makes a veth pair whose end "in" has a queue of its own.
func receives(t *testing.T, label string) func() ([]int, error) {
	t.Helper()
	ns := testutil.Namespace(t, label)
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
	return func() ([]int, error) { return napi.Thread(ns, "in") }
}

func TestThreadsAreTheDevicesOwn(t *testing.T) {
	var all []int
	for _, label := range []string{"one", "two"} {
		threads, err := receives(t, label)()
		testutil.Need(t, "napi-threads", err)
		if len(threads) == 0 {
			t.Fatal("no thread")
		}
		all = append(all, threads...)
	}
	seen := map[int]bool{}
	for _, thread := range all {
		name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", thread))
		if err != nil || !strings.HasPrefix(string(name), "napi/in-") || seen[thread] {
			t.Errorf("thread %d of %v is %q, %v", thread, all, name, err)
		}
		seen[thread] = true
	}
}

func TestAScheduledThreadKeepsItsProcessorAndTime(t *testing.T) {
	threads, err := receives(t, "three")()
	testutil.Need(t, "napi-threads", err)
	if err := napi.Schedule(threads[0], 0, 1); err != nil {
		t.Fatal(err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", threads[0]))
	if err != nil || !strings.Contains(string(status), "Cpus_allowed_list:\t0\n") {
		t.Errorf("not kept on processor 0: %v\n%s", err, status)
	}
	if times, err := napi.TimesOf(threads[0]); errors.Is(err, fs.ErrNotExist) {
		t.Logf("a kernel without times: %v", err)
	} else if err != nil || times.Ran < 0 || times.Waited < 0 {
		t.Errorf("times %+v, %v", times, err)
	}
}
