// SPDX-License-Identifier: Apache-2.0

package napi_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"weir/kernel/napi"
	"weir/kernel/testutil"
)

func TestThreadsAreTheDevicesOwn(t *testing.T) {
	var all []int
	for _, label := range []string{"one", "two"} {
		all = append(all, testutil.ReceiveThreads(t, label)...)
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
	threads := testutil.ReceiveThreads(t, "three")
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
