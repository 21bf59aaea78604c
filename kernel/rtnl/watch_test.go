// SPDX-License-Identifier: Apache-2.0

package rtnl_test

import (
	"encoding/binary"
	"os/exec"
	"strings"
	"testing"
	"time"

	"weir/kernel/rtnl"
	"weir/kernel/testutil"
)

// A device that appears, is renamed, gets an alternative name, another MTU, or disappears causes an
// event; repeated messages about the same properties cause none.
func TestWatchReportsChangesOfDevices(t *testing.T) {
	testutil.NeedRoot(t)
	ns := testutil.Namespace(t, "watched")
	w, err := rtnl.WatchDevices(ns)
	must(t, err)
	ended := make(chan error, 1)
	go func() { ended <- w.Run() }()
	ip := func(args string) {
		t.Helper()
		if out, err := exec.Command(testutil.Command(t, "ip"), strings.Fields("-n "+ns.Name+" "+args)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v\n%s", args, err, out)
		}
	}
	ip("link add name z type veth peer name y") // the kernel reports alternative names of active devices only
	ip("link set dev z up")
	for _, change := range []string{
		"link add name a type veth peer name b", "link set dev a name c", "link property add dev z altname somewhere", "link set dev c mtu 1400", "link del dev c",
	} {
		for len(w.Changed) > 0 {
			<-w.Changed
		}
		ip(change)
		select {
		case <-w.Changed:
		case err := <-ended:
			t.Fatalf("%s: the watch ended: %v", change, err)
		case <-time.After(time.Minute):
			t.Fatalf("%s: no event", change)
		}
		settle(w)
	}
	must(t, w.Close())
	if err := <-ended; err != nil {
		t.Errorf("closed: %v", err)
	}
}

// settle waits for events of the same change.
func settle(w *rtnl.Watch) {
	for {
		select {
		case <-w.Changed:
		case <-time.After(200 * time.Millisecond):
			return
		}
	}
}

func FuzzWatch(f *testing.F) {
	message := make([]byte, 32)
	binary.NativeEndian.PutUint32(message, 32)
	binary.NativeEndian.PutUint16(message[4:], 16)
	f.Add(message)
	f.Fuzz(func(_ *testing.T, messages []byte) { rtnl.Changes(messages) })
}
