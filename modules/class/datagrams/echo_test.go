// SPDX-License-Identifier: Apache-2.0

package datagrams

import (
	"net"
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"weir/internal/fault"
	"weir/kernel/testutil"
)

// TestAMissingRightToMeasureIsReported asks without CAP_NET_RAW, and with it.
func TestAMissingRightToMeasureIsReported(t *testing.T) {
	testutil.NeedRoot(t)
	without := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with its goroutine
		if err := testutil.Become(4711, nil); err != nil {
			without <- err
			return
		}
		without <- mayMeasure()
	}()
	if err := <-without; fault.Of(err) != fault.Permission || !strings.Contains(err.Error(), "CAP_NET_RAW") {
		t.Errorf("without the right: %v", err)
	}
	if err := mayMeasure(); err != nil {
		t.Errorf("as root: %v", err)
	}
}

// TestErrorsAboutThePeerEndNoReader lists errors of reads.
func TestErrorsAboutThePeerEndNoReader(t *testing.T) {
	for _, err := range []error{unix.EHOSTDOWN, unix.ENONET, unix.ENOPROTOOPT, unix.EHOSTUNREACH} {
		if closed(&net.OpError{Op: "read", Err: os.NewSyscallError("recvfrom", err)}) {
			t.Errorf("%v ends the reader", err)
		}
	}
	if !closed(net.ErrClosed) {
		t.Error("a closed connection does not end the reader")
	}
}
