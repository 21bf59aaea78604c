// SPDX-License-Identifier: Apache-2.0

package probe_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"weir/internal/child"
	"weir/internal/fault"
	"weir/kernel/probe"
	"weir/kernel/testutil"
)

func TestMain(m *testing.M) {
	child.Main(restricted)
	os.Exit(m.Run())
}

// testKernelNames maps features to their names in testutil's table of absent features, if they
// differ.
var testKernelNames = map[string]string{"qdiscs/bpf": "sch_bpf", "hooks/iter/tcp": "tracing", "hooks/congestion control in bpf": "struct_ops-links", "hooks/callbacks of open sockets": "open-sockets",
	"hooks/tp_btf cgroup_mkdir": "tracing",
	"ipv6/ioam encapsulation":   "ioam-encapsulation"}

func TestEveryProbeAnswersAndLeavesNothing(t *testing.T) {
	testutil.Snapshot(t)
	for _, feature := range probe.Features() {
		err := feature.Probe()
		t.Logf("%s, %s: %v", feature.Group, feature.Name, err)
		if err != nil && (fault.Of(err) != fault.Testbed || fault.Advice(err) == "") {
			t.Errorf("%s: %v has status %d and advice %q; want a fault that names what is missing", feature.Name, err, fault.Of(err), fault.Advice(err))
		}
	}
}

// TestTheTableOfTheTestKernels compares a test kernel's features with testutil's table.
func TestTheTableOfTheTestKernels(t *testing.T) {
	kernel := os.Getenv("TEST_KERNEL")
	if kernel == "" {
		testutil.Need(t, "test-kernel", errors.New("this is the machine's own"))
	}
	for _, feature := range probe.Features() {
		err := feature.Probe()
		name := feature.Name
		if other := testKernelNames[feature.Group+"/"+name]; other != "" {
			name = other
		}
		if testutil.KnownAbsent(kernel, name) != (err != nil) {
			t.Errorf("%s under the %s test kernel: %v, and the table says missing: %t", name, kernel, err, testutil.KnownAbsent(kernel, name))
		}
	}
}

// TestProbesAgreeWithTheConfiguration compares the probes with the kernel's configuration.
func TestProbesAgreeWithTheConfiguration(t *testing.T) {
	testutil.NeedRoot(t)
	config, err := probe.Config()
	if os.Getenv("TEST_KERNEL") == "uml" && err != nil {
		t.Logf("uml: %v", err) // its features are in testutil's table
		return
	}
	testutil.Need(t, "ikconfig", err)
	for option, try := range map[string]func() error{
		"CONFIG_NET_SCH_NETEM":         probe.Netem,
		"CONFIG_NET_SCH_FQ":            func() error { return probe.Qdisc("fq") },
		"CONFIG_NET_SCH_FQ_CODEL":      func() error { return probe.Qdisc("fq_codel") },
		"CONFIG_NET_SCH_HTB":           func() error { return probe.Qdisc("htb") },
		"CONFIG_NET_SCH_TBF":           func() error { return probe.Qdisc("tbf") },
		"CONFIG_NET_SCH_INGRESS":       func() error { return probe.Qdisc("clsact") },
		"CONFIG_NET_SCH_BPF":           func() error { return probe.Qdisc("bpf") },
		"CONFIG_NET_CLS_FLOWER":        func() error { return probe.Classifier("flower") },
		"CONFIG_NET_CLS_U32":           func() error { return probe.Classifier("u32") },
		"CONFIG_NET_CLS_BPF":           func() error { return probe.Classifier("bpf") },
		"CONFIG_TCP_CONG_BBR":          func() error { return probe.CongestionControl("bbr") },
		"CONFIG_TCP_CONG_DCTCP":        func() error { return probe.CongestionControl("dctcp") },
		"CONFIG_XDP_SOCKETS":           probe.AFXDP,
		"CONFIG_NET_XGRESS":            probe.TCX,
		"CONFIG_VETH":                  probe.Veth,
		"CONFIG_IPV6":                  probe.IPv6,
		"CONFIG_IPV6_IOAM6_LWTUNNEL":   probe.IOAM6Tunnel,
		"CONFIG_IPV6_SEG6_LWTUNNEL":    probe.Seg6Tunnel,
		"CONFIG_LWTUNNEL_BPF":          probe.BPFTunnel,
		"CONFIG_BPF_JIT":               probe.JIT,
		"CONFIG_DEBUG_INFO_BTF":        probe.BTF,
		"CONFIG_TCP_CONG_NO_SUCH_NAME": func() error { return probe.CongestionControl("no_such_name") },
	} {
		t.Run(option, func(t *testing.T) {
			_, built := config[option]
			if err := try(); (err == nil) != built {
				t.Errorf("%s is %q, and the probe says: %v", option, config[option], err)
			}
		})
	}
}

func TestCongestionControlsIncludeReno(t *testing.T) {
	names, err := probe.CongestionControls()
	if err != nil || !slices.Contains(names, "reno") || !slices.IsSorted(names) {
		t.Errorf("%q, %v: every kernel has reno", names, err)
	}
}

func TestCgroupMounts(t *testing.T) {
	groups, err := probe.CgroupMounts()
	if err != nil {
		t.Fatal(err)
	}
	_, missing := os.Stat(groups.Path + "/cgroup.controllers")
	if hasTree := groups.Mode == "v2" || groups.Mode == "hybrid"; hasTree != (groups.Path != "" && missing == nil) {
		t.Errorf("%+v, and cgroup.controllers there: %v", groups, missing)
	}
}

func TestClocks(t *testing.T) {
	clock, err := probe.Clocks()
	if err != nil || clock.Source == "" || clock.TAI < 0 || clock.TAI > 100 {
		t.Errorf("%+v, %v", clock, err)
	}
}

func TestReleaseIsInTheKernelsOwnWords(t *testing.T) {
	release, err := probe.Release()
	version, _ := os.ReadFile("/proc/version")
	if err != nil || release == "" || !strings.Contains(string(version), release) {
		t.Errorf("release %q, %v, not in %q", release, err, version)
	}
}
