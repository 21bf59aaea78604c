// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"weir/kernel/device"
	"weir/kernel/testutil"
)

// Filters of others at ingress are found by device, and Weir's own programs are not.
func TestIngressFiltersOfOthersAreFound(t *testing.T) {
	ns := bench(t, "1")
	pins := filepath.Join(testutil.BPFFS(t), "devices")
	tr := newTrail(t)
	found := func() string {
		t.Helper()
		all, err := device.IngressFilters(ns, []string{"a", "b", "missing"}, pins)
		must(t, err)
		if len(all["b"]) > 0 || len(all["missing"]) > 0 {
			t.Errorf("found at other devices: %q", all)
		}
		return strings.Join(all["a"], ", ")
	}
	inside := func(line string) error {
		return ns.Do(func() error { return exec.Command("sh", "-c", line).Run() })
	}
	own, err := device.Attach(ns, "a", device.Ingress, device.MaxOrder, "limit", tr.program(t, 1), device.Options{Pins: pins})
	must(t, err)
	t.Cleanup(func() { must(t, own.Detach()) })
	if got := found(); got != "" {
		t.Errorf("found %q beside Weir's program", got)
	}
	testutil.Need(t, "tc filter", inside("tc qdisc replace dev a clsact && tc filter add dev a ingress protocol ip prio 7 u32 match u32 0 0 action mirred egress redirect dev b"))
	if got := found(); got != "tc filter u32 with priority 7" {
		t.Errorf("found %q", got)
	}
	must(t, inside("tc filter del dev a ingress"))
	if inside("nft add table netdev fw && nft 'add chain netdev fw in { type filter hook ingress device a priority 0; }'") == nil {
		if got := found(); got != "nftables chain netdev fw in" {
			t.Errorf("found %q", got)
		}
		must(t, inside("nft delete table netdev fw"))
	}
	if own.Mechanism == device.TCX {
		must(t, ns.Do(func() error {
			a, err := net.InterfaceByName("a")
			if err != nil {
				return err
			}
			l, err := link.AttachTCX(link.TCXOptions{Interface: a.Index, Attach: ebpf.AttachTCXIngress, Program: tr.program(t, 2), Anchor: link.Tail()})
			if err == nil {
				t.Cleanup(func() { _ = l.Close() })
			}
			return err
		}))
		if got := found(); !strings.HasPrefix(got, "TCX program ") {
			t.Errorf("found %q", got)
		}
	}
}
