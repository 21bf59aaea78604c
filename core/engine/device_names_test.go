// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"os/exec"
	"strings"
	"testing"

	"weir/kernel/testutil"
)

// A name resolves to a device by its name, an alternative name, or the name that it had at the last
// apply; the first of these wins, and a later device with the same index is another one.
func TestDeviceNames(t *testing.T) {
	testutil.NeedRoot(t)
	ns := testutil.Namespace(t, "names")
	ip := func(args string) {
		t.Helper()
		if out, err := exec.Command(testutil.Command(t, "ip"), strings.Fields("-n "+ns.Name+" "+args)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v\n%s", args, err, out)
		}
	}
	lookUp := func(before deviceNames) (found deviceNames) {
		t.Helper()
		err := ns.Do(func() (err error) {
			found, err = lookUpDevices([]string{"a", "uplink-of-the-rack"}, before.ids)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	expect := func(n deviceNames, a, uplink string) {
		t.Helper()
		if got := n.resolve("a"); got != a {
			t.Errorf("a is %s, want %s", got, a)
		}
		if got := n.resolve("uplink-of-the-rack"); got != uplink {
			t.Errorf("the alternative name is %s, want %s", got, uplink)
		}
	}
	ip("link add name a index 1001 address 02:00:00:00:00:01 type veth peer name b")
	first := lookUp(deviceNames{})
	expect(first, "a", "uplink-of-the-rack")
	ip("link property add dev b altname uplink-of-the-rack")
	ip("link set dev a name c")
	renamed := lookUp(first)
	expect(renamed, "c", "b")
	ip("link set dev c name d")
	expect(lookUp(renamed), "d", "b")
	ip("link add name a type veth peer name f")
	expect(lookUp(renamed), "a", "b")
	ip("link del dev a")
	ip("link del dev d")
	ip("link add name e index 1001 address 02:00:00:00:00:02 type veth peer name b")
	expect(lookUp(renamed), "a", "uplink-of-the-rack")
}
