// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"weir/core/module"
	"weir/kernel/probe"
)

// Names of the capabilities required by lab experiments.
const (
	labNetworks = "lab networks"
	labLinks    = "lab links"
	labTraffic  = "lab traffic"
)

const emulator = "AF_XDP emulator"

func inLab(name string) bool { return name == labNetworks || name == labLinks || name == labTraffic }

// found maps "group/name" to the features of a kernel.
type found map[string]Feature

// capabilities selects the mechanism of each capability from the features.
func capabilities(features []Feature, congestionControls []string, modules []module.Capability) []Capability {
	have := found{}
	for _, feature := range features {
		have[feature.Group+"/"+feature.Name] = feature
	}
	list := []Capability{
		have.needs(labNetworks, "network namespaces joined by veth pairs", "namespaces/network namespaces", "namespaces/veth"),
		have.links(),
		have.traffic(congestionControls),
		have.first("tester generator",
			way{"XDP live frames", []string{"hooks/xdp live frames", "hooks/xdp native on veth"}},
			way{"AF_XDP", []string{"hooks/af_xdp copy mode on veth"}}),
		have.needs("tester analyzer", "XDP in the device's driver", "hooks/xdp native on veth", "bpf maps/ringbuf"),
	}
	for _, c := range modules {
		list = append(list, have.module(c))
	}
	for i := range list {
		if list[i].Missing == nil {
			list[i].Missing = []string{}
		}
	}
	return list
}

// Described is a capability and its mechanism on a kernel with all features.
type Described struct{ Name, Mechanism string }

// Describe lists the capabilities of this build.
func Describe(modules []module.Module) (all []Described) {
	var features []Feature
	for _, f := range probe.Features() {
		features = append(features, Feature{Group: f.Group, Name: f.Name, State: Available})
	}
	for _, c := range capabilities(features, []string{"as loaded"}, capabilitiesOf(modules)) {
		all = append(all, Described{c.Name, c.Mechanism})
	}
	return all
}

// Groups returns the groups of probed features, in the order of the report, and their names.
func Groups() (names []string, features map[string][]string) {
	features = map[string][]string{}
	for _, f := range probe.Features() {
		if features[f.Group] == nil {
			names = append(names, f.Group)
		}
		features[f.Group] = append(features[f.Group], f.Name)
	}
	return names, features
}

// module selects the mechanism of a module's capability.
func (f found) module(c module.Capability) Capability {
	var ways []way
	for _, m := range c.Mechanisms {
		ways = append(ways, way{m.Name, m.Features})
	}
	out := f.first(c.Name, ways...)
	if out.State == Available && out.Try != "" { // a later way does the same
		out.Try = fmt.Sprintf("nothing needs to be done; %s to have %s", out.Try, strings.Join(out.Missing, ", "))
	}
	if out.State == Missing && c.Optional != "" && slices.Equal(out.Missing, []string{c.Without}) {
		out.Try = "nothing needs to be done: " + fmt.Sprintf(c.Optional, out.Try)
	}
	return out
}

// way is a mechanism and its required features.
type way struct {
	mechanism string
	features  []string
}

// needs returns a capability with a single mechanism.
func (f found) needs(name, mechanism string, features ...string) Capability {
	return f.first(name, way{mechanism, features})
}

// first selects the first mechanism with all its features, and lists the missing features of better
// ones. Without any, the capability is missing, or not permitted if only privileges stand against
// the last mechanism.
func (f found) first(name string, ways ...way) Capability {
	c := Capability{Name: name}
	for _, w := range ways {
		state, missing, try := f.lacks(w.features)
		if state == Available {
			c.State, c.Mechanism = Available, w.mechanism
			return c
		}
		c.State, c.Try = state, try
		c.Missing = append(c.Missing, missing...)
	}
	slices.Sort(c.Missing)
	c.Missing = slices.Compact(c.Missing)
	return c
}

// lacks returns the missing features and the first advice to get one.
func (f found) lacks(features []string) (state State, missing []string, try string) {
	state = Available
	for _, key := range features {
		feature, known := f[key]
		switch {
		case !known:
			feature = Feature{Name: key, State: Missing, Error: key + " was not tried"}
		case feature.State == Available:
			continue
		}
		missing = append(missing, feature.Name)
		if state != Missing {
			if state == Available || feature.State == Missing {
				try = feature.Try
			}
			state = feature.State
		}
	}
	return state, missing, try
}

// links selects the carrier of frames between hosts, as the lab does for links that several
// carriers support.
func (f found) links() Capability {
	hook := []string{"hooks/tcx"}
	if f["hooks/tcx"].State != Available {
		hook = []string{"qdiscs/clsact", "classifiers/bpf", "bpf programs/sched_cls"}
	}
	netem := append([]string{"qdiscs/netem"}, hook...)
	c := f.first(labLinks,
		way{"departure times in fq", append([]string{"qdiscs/fq"}, hook...)},
		way{"netem", netem},
		way{emulator, []string{"bpf/system call", "hooks/af_xdp copy mode on veth", "hooks/xdp native on veth"}})
	if len(c.Missing) > 0 && c.State == Available {
		_, _, try := f.lacks([]string{"qdiscs/fq"})
		c.Try = "nothing needs to be done; " + try + " to carry links by departure times"
	}
	return c
}

// traffic describes the lab's senders and receivers.
func (f found) traffic(controls []string) Capability {
	c := f.needs(labTraffic, "TCP and UDP sockets; congestion control "+strings.Join(controls, ", "), "namespaces/network namespaces")
	if c.State != Available {
		return c
	}
	for _, name := range []string{"cubic", "bbr", "dctcp"} {
		if f["tcp/"+name].State == Missing {
			c.Missing = append(c.Missing, name)
		}
	}
	if len(c.Missing) > 0 {
		c.Try = fmt.Sprintf("leave %s out of experiments, or use a kernel with CONFIG_TCP_CONG_%s",
			strings.Join(c.Missing, ", "), strings.ToUpper(c.Missing[0]))
	}
	return c
}

// notes returns the notes at the top of a report.
func notes(r Report) []string {
	var list []string
	have := found{}
	denied := false
	for _, feature := range r.Features {
		have[feature.Group+"/"+feature.Name] = feature
		denied = denied || feature.State == NotPermitted
	}
	switch bpf := have["bpf/system call"]; {
	case bpf.State == Available:
	case r.Privileges.SeccompFilter && strings.Contains(bpf.Error, "seccomp"):
		list = append(list, "a seccomp filter refuses the bpf system call to this process: nothing that uses BPF can run in this container")
	case bpf.State == Missing:
		list = append(list, "this kernel refuses the bpf system call: nothing that uses BPF can run")
	}
	if denied {
		list = append(list, "this process may not probe some features: their state is that of the kernel's configuration")
	}
	if r.Machine.Cores < 2 {
		list = append(list, "one processor: senders, links and receivers share it, and high rates will be marked invalid")
	}
	return list
}

func join(errs []error) error {
	var text []string
	for _, err := range errs {
		text = append(text, err.Error())
	}
	return errors.New(strings.Join(text, ", "))
}
