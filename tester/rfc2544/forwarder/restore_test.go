// SPDX-License-Identifier: Apache-2.0

package forwarder

import (
	"context"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"weir/internal/child"
	"weir/kernel/ethtool"
	"weir/kernel/napi"
	"weir/kernel/netns"
	"weir/kernel/testutil"
)

func TestMain(m *testing.M) {
	child.Main(child.Parts{RestorePart: Restore, "borrow": borrow})
	os.Exit(m.Run())
}

// borrow borrows the device "in" of the namespace that its first line names, and holds it until it
// is killed.
func borrow(in io.Reader, out io.Writer) error {
	var name string
	if _, err := fmt.Fscanln(in, &name); err != nil {
		return err
	}
	ns, err := netns.Open(name)
	if err != nil {
		return err
	}
	if _, err := Borrow(context.Background(), ns, "in", "out", 0); err != nil {
		return err
	}
	fmt.Fprintln(out, "borrowed")
	_, err = io.Copy(io.Discard, in)
	return err
}

// given reports whether the device is in its former state: without GRO and threads.
func given(t *testing.T, ns *netns.Namespace) bool {
	t.Helper()
	features, err := ethtool.Features(ns, "in")
	if err != nil {
		t.Fatal(err)
	}
	threads, err := napi.Threads(ns, "in")
	if err != nil {
		t.Fatal(err)
	}
	return !features["gro"] && len(threads) == 0
}

func TestABorrowedDeviceIsGivenBack(t *testing.T) {
	testutil.NeedReceiveThreads(t)
	ns := router(t)
	if err := ethtool.SetFeatures(ns, "in", map[string]bool{"gro": false}); err != nil {
		t.Fatal(err)
	}
	f, err := Borrow(t.Context(), ns, "in", "out", 0)
	if err != nil {
		t.Fatal(err)
	}
	if given(t, ns) {
		t.Fatal("the device was not prepared")
	}
	if err := f.Close(); err != nil || !given(t, ns) {
		t.Errorf("after Close: %v, as before: %t", err, given(t, ns))
	}
	// A killed process cannot restore anything itself.
	process, err := child.Start(t.Context(), "borrow", os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(process.In, ns.Name)
	var word string
	if _, err := fmt.Fscanln(process.Out, &word); err != nil {
		t.Fatal(err)
	}
	if given(t, ns) {
		t.Fatal("the device was not prepared")
	}
	if err := process.Kill(); err != nil {
		t.Fatal(err)
	}
	testutil.Eventually(t, 10*time.Second, "the device as it was", func() bool { return given(t, ns) })
}
