// SPDX-License-Identifier: Apache-2.0

package analyzer

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"weir/internal/fault"
	"weir/kernel/rtnl"
	"weir/kernel/testutil"
)

// `ip` cannot detach another tester's program, so the error names its process.
func TestAnotherTesterOnADeviceIsNamed(t *testing.T) {
	ns := testutil.Namespace(t, "held")
	conn, err := rtnl.Open(ns)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := errors.Join(conn.AddVeth("tg0", ns, "tg1", 0), conn.SetUp("tg0"), conn.SetUp("tg1")); err != nil {
		t.Fatal(err)
	}
	first, err := Attach(ns, "tg1", Options{Streams: []uint16{0}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.Close() }()
	_, err = Attach(ns, "tg1", Options{Streams: []uint16{0}})
	want := fmt.Sprintf("another tester receives on it, process %d:", os.Getpid())
	if fault.Of(err) != fault.Failed || !strings.HasPrefix(fault.Advice(err), want) {
		t.Errorf("%v, try %q, want %q", err, fault.Advice(err), want)
	}
}
