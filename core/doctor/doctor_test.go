// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/internal/fault"
	"weir/internal/texttable"
	"weir/kernel/probe"
	"weir/modules"
)

// kernel returns the features of a simulated kernel: all, except for the listed states.
func kernel(states map[string]State) []Feature {
	var list []Feature
	for _, feature := range probe.Features() {
		made := Feature{Group: feature.Group, Name: feature.Name, State: Available}
		if state, listed := states[feature.Group+"/"+feature.Name]; listed {
			made.State, made.Error, made.Try = state, feature.Name+" is not there", "get "+feature.Name
		}
		list = append(list, made)
	}
	return list
}

// allNotPermitted is the result of a process without privileges.
func allNotPermitted() map[string]State {
	states := map[string]State{}
	for _, feature := range probe.Features() {
		states[feature.Group+"/"+feature.Name] = NotPermitted
	}
	return states
}

func TestConclusions(t *testing.T) {
	for _, test := range []struct {
		description string
		states      map[string]State
		capability  string
		want        Capability
	}{
		{"links with fq", nil, labLinks, Capability{State: Available, Mechanism: "departure times in fq"}},
		{"links with netem", map[string]State{"qdiscs/fq": Missing}, labLinks, Capability{State: Available, Mechanism: "netem", Missing: []string{"fq"},
			Try: "nothing needs to be done; get fq to carry links by departure times"}},
		{"links with fq without TCX", map[string]State{"hooks/tcx": Missing}, labLinks, Capability{State: Available, Mechanism: "departure times in fq"}},
		{"links with netem without TCX", map[string]State{"hooks/tcx": Missing, "qdiscs/fq": Missing}, labLinks,
			Capability{State: Available, Mechanism: "netem", Missing: []string{"fq"},
				Try: "nothing needs to be done; get fq to carry links by departure times"}},
		{"links without TCX and BPF", map[string]State{"hooks/tcx": Missing, "bpf programs/sched_cls": Missing, "hooks/af_xdp copy mode on veth": Missing}, labLinks,
			Capability{State: Missing, Missing: []string{"af_xdp copy mode on veth", "sched_cls"}, Try: "get af_xdp copy mode on veth"}},
		{"links without fq and netem", map[string]State{"qdiscs/fq": Missing, "qdiscs/netem": Missing}, labLinks,
			Capability{State: Available, Mechanism: "AF_XDP emulator", Missing: []string{"fq", "netem"},
				Try: "nothing needs to be done; get fq to carry links by departure times"}},
		{"links without AF_XDP", map[string]State{"hooks/af_xdp copy mode on veth": Missing}, labLinks,
			Capability{State: Available, Mechanism: "departure times in fq"}},
		{"links without any", map[string]State{"hooks/af_xdp copy mode on veth": Missing, "qdiscs/fq": Missing, "qdiscs/netem": Missing}, labLinks,
			Capability{State: Missing, Missing: []string{"af_xdp copy mode on veth", "fq", "netem"}, Try: "get af_xdp copy mode on veth"}},
		{"a missing feature outweighs a missing right", map[string]State{"qdiscs/fq": Missing, "qdiscs/netem": Missing,
			"hooks/af_xdp copy mode on veth": NotPermitted, "hooks/xdp native on veth": Missing}, labLinks,
			Capability{State: Missing, Missing: []string{"af_xdp copy mode on veth", "fq", "netem", "xdp native on veth"}, Try: "get xdp native on veth"}},
		{"traffic without DCTCP", map[string]State{"tcp/dctcp": Missing}, labTraffic,
			Capability{State: Available, Mechanism: "TCP and UDP sockets; congestion control cubic, reno", Missing: []string{"dctcp"},
				Try: "leave dctcp out of experiments, or use a kernel with CONFIG_TCP_CONG_DCTCP"}},
		{"no rights", allNotPermitted(), labNetworks,
			Capability{State: NotPermitted, Missing: []string{"network namespaces", "veth"}, Try: "get network namespaces"}},
		{"limits", nil, "police egress", Capability{State: Available, Mechanism: "cgroup_skb programs, TCP paced by sock_ops"}},
		{"limits without sock_ops", map[string]State{"cgroups/sock_ops": Missing}, "police egress",
			Capability{State: Missing, Missing: []string{"sock_ops"}, Try: "get sock_ops"}},
		{"ingress without sock_ops", map[string]State{"cgroups/sock_ops": Missing}, "police ingress",
			Capability{State: Available, Mechanism: "cgroup_skb programs that mark and drop"}},
		{"limits on cgroup v1", map[string]State{"cgroups/cgroup v2": Missing, "cgroups/cgroup_skb ingress": Missing}, "police ingress",
			Capability{State: Missing, Missing: []string{"cgroup v2", "cgroup_skb ingress"}, Try: "get cgroup v2"}},
		{"limits before Linux 6.12", map[string]State{"hooks/callbacks of open sockets": Missing}, "police open connections",
			Capability{State: Missing, Missing: []string{"callbacks of open sockets"},
				Try: "nothing needs to be done: they are limited but not paced until they close; get callbacks of open sockets to pace them"}},
		{"cgroups without tracing", map[string]State{"hooks/tp_btf cgroup_mkdir": Missing}, "limit new cgroups",
			Capability{State: Available, Mechanism: "the daemon binds them when it sees them", Missing: []string{"tp_btf cgroup_mkdir"},
				Try: "nothing needs to be done; get tp_btf cgroup_mkdir to have tp_btf cgroup_mkdir"}},
		{"classes before Linux 6.6", map[string]State{"hooks/tcx": Missing}, "class",
			Capability{State: Available, Mechanism: "marks by a program at every device's egress (clsact)", Missing: []string{"tcx"},
				Try: "nothing needs to be done; get tcx to have tcx"}},
		{"congestion controls", nil, "cc", Capability{State: Available, Mechanism: "struct_ops programs registered by a BPF link"}},
		{"congestion controls without link", map[string]State{"hooks/congestion control in bpf": Missing}, "cc",
			Capability{State: Missing, Missing: []string{"congestion control in bpf"}, Try: "get congestion control in bpf"}},
		{"congestion controls without rights", allNotPermitted(), "cc",
			Capability{State: NotPermitted, Missing: []string{"btf", "congestion control in bpf", "jit", "struct_ops"}, Try: "get btf"}},
		{"generator without live frames", map[string]State{"hooks/xdp live frames": Missing}, "tester generator",
			Capability{State: Available, Mechanism: "AF_XDP", Missing: []string{"xdp live frames"}, Try: "get xdp live frames"}},
	} {
		t.Run(test.description, func(t *testing.T) {
			list := capabilities(kernel(test.states), []string{"cubic", "reno"}, capabilitiesOf(modules.All()))
			i := slices.IndexFunc(list, func(c Capability) bool { return c.Name == test.capability })
			if i < 0 {
				t.Fatalf("no capability %s", test.capability)
			}
			test.want.Name = test.capability
			if test.want.Missing == nil {
				test.want.Missing = []string{}
			}
			if diff := cmp.Diff(test.want, list[i]); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestEveryConclusionRestsOnAFeatureThatIsTried(t *testing.T) {
	for _, c := range capabilities(kernel(nil), nil, capabilitiesOf(modules.All())) {
		if c.State == Missing {
			t.Errorf("%s misses %q on a kernel that has everything", c.Name, c.Missing)
		}
	}
}

func TestExitStatus(t *testing.T) {
	for _, test := range []struct {
		description string
		states      map[string]State
		want        fault.Status
	}{
		{"everything", nil, fault.OK},
		{"without fq, netem and flower", map[string]State{"qdiscs/fq": Missing, "qdiscs/netem": Missing, "classifiers/flower": Missing}, fault.OK},
		{"without the generator", map[string]State{"hooks/xdp live frames": Missing}, fault.OK},
		{"without AF_XDP", map[string]State{"hooks/af_xdp copy mode on veth": Missing}, fault.OK},
		{"without AF_XDP, fq and netem", map[string]State{"hooks/af_xdp copy mode on veth": Missing, "qdiscs/fq": Missing, "qdiscs/netem": Missing}, fault.Testbed},
		{"without rights", allNotPermitted(), fault.Permission},
		{"without rights, and without veth", map[string]State{
			"namespaces/veth": Missing, "hooks/af_xdp copy mode on veth": NotPermitted}, fault.Testbed},
		{"without veth, and rights missing before it", map[string]State{
			"namespaces/network namespaces": NotPermitted, "hooks/af_xdp copy mode on veth": Missing, "qdiscs/fq": Missing, "qdiscs/netem": Missing}, fault.Testbed},
	} {
		err := Report{Capabilities: capabilities(kernel(test.states), nil, capabilitiesOf(modules.All()))}.LabError()
		if fault.Of(err) != test.want {
			t.Errorf("%s: %v with status %d, want %d", test.description, err, fault.Of(err), test.want)
		}
		if err != nil && fault.Advice(err) == "" {
			t.Errorf("%s: no advice", test.description)
		}
	}
}

func TestTextSaysWhatTheReportSays(t *testing.T) {
	report := Report{Features: kernel(map[string]State{"qdiscs/netem": Missing, "qdiscs/fq": NotPermitted}), Notes: []string{"mind the gap"}}
	for i := range report.Features {
		if report.Features[i].Name == "fq" {
			report.Features[i].Configured = "m"
		}
	}
	report.Capabilities = capabilities(report.Features, []string{"reno"}, capabilitiesOf(modules.All()))
	report.Privileges = Privileges{Capabilities: map[string]bool{"CAP_BPF": true, "CAP_NET_ADMIN": false}, SeccompFilter: true}
	var text strings.Builder
	for _, table := range report.Tables() {
		if err := texttable.Write(&text, table.Title, table.Note, table.Columns, table.Rows); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{
		"without CAP_NET_ADMIN, behind a seccomp filter", "note: mind the gap", "lab links: nothing needs to be done",
		"not permitted, kernel has it  fq", "missing                       netem",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the text lacks %q:\n%s", want, text.String())
		}
	}
}

func TestAMissingMountIsSaid(t *testing.T) {
	got := pinNotes(t.TempDir())
	if len(got) != 1 || !strings.Contains(got[0], "no policy can be applied") || !strings.Contains(got[0], "mount -t bpf") {
		t.Errorf("said %q", got)
	}
}
