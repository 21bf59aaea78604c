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

// What a low port takes is neither a right to BPF nor one to files.
func TestALowPortTakesARightOfItsOwn(t *testing.T) {
	testutil.NeedRoot(t)
	ns := testutil.Namespace(t, "port") // where ports begin to be free at 1024
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with its goroutine
		failed <- ns.Do(func() error {
			if err := testutil.Become(4711, []int{unix.CAP_SYS_ADMIN}); err != nil { // to go back
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
