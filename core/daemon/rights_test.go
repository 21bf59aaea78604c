// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"weir/internal/fault"
	"weir/kernel/testutil"
)

// A port below 1024 needs CAP_NET_BIND_SERVICE; the capabilities for BPF and files do not suffice.
func TestALowPortNeedsNetBindService(t *testing.T) {
	testutil.NeedRoot(t)
	ns := testutil.Namespace(t, "port") // with ip_unprivileged_port_start 1024
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with its goroutine
		failed <- ns.Do(func() error {
			if err := testutil.Become(4711, []int{unix.CAP_SYS_ADMIN}); err != nil { // to return to the former namespace
				return err
			}
			listener, err := listenLoopback("127.0.0.1:80")
			if err == nil {
				_ = listener.Close()
			}
			return err
		})
	}()
	if err := <-failed; fault.Of(err) != fault.Permission || !strings.Contains(fault.Advice(err), "CAP_NET_BIND_SERVICE") {
		t.Errorf("%v; try %q", err, fault.Advice(err))
	}
}
