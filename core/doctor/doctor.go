// SPDX-License-Identifier: Apache-2.0

// Package doctor reports the mechanism of each capability of Weir on this machine, missing
// features, and how to get them.
//
// [Examine] probes every kernel feature; [capabilities] selects mechanisms and makes no system
// call, so that tests can use any kernel's features. A feature that this process may not probe is
// "not permitted", never "missing".
package doctor

import (
	"errors"
	"fmt"
	"regexp"

	"weir/core/module"
	"weir/internal/fault"
	"weir/kernel/bpffs"
	"weir/kernel/probe"
	"weir/record"
	"weir/record/machine"
)

// Format is the value of Report.Format: the version of the JSON document.
const Format = "weir-doctor/1"

// State is the state of a feature or a capability.
type State string

const (
	Available    State = "available"
	Missing      State = "missing"       // the kernel does not have it
	NotPermitted State = "not permitted" // this process may not use it; the kernel may have it
)

// Report is the document of weir doctor --format json; docs/formats/doctor.md describes it.
type Report struct {
	Format             string         `json:"format"`
	Machine            record.Machine `json:"machine"`
	Clock              Clock          `json:"clock"`
	Cgroups            Cgroups        `json:"cgroups"`
	Privileges         Privileges     `json:"privileges"`
	CongestionControls []string       `json:"congestion_controls"` // loaded, sorted
	Capabilities       []Capability   `json:"capabilities"`
	Features           []Feature      `json:"features"`
	Notes              []string       `json:"notes"` // shown first
}

// Clock describes the clock source of the machine.
type Clock struct {
	Source string `json:"source"`
	TAI    int    `json:"tai_offset_s"` // 0 if the kernel's offset is not set
}

// Cgroups describes the cgroup mounts.
type Cgroups struct {
	Mode string `json:"mode"` // "v2", "hybrid", "v1", "none"
	Path string `json:"path"` // of the v2 tree, "" without one
}

// Privileges lists the privileges of the process.
type Privileges struct {
	Capabilities  map[string]bool `json:"capabilities"` // capabilities that Weir uses
	SeccompFilter bool            `json:"seccomp_filter"`
}

// Capability is an ability of Weir and its mechanism on this machine.
type Capability struct {
	Name      string   `json:"name"`
	State     State    `json:"state"`
	Mechanism string   `json:"mechanism"` // the selected one; "" if there is none
	Missing   []string `json:"missing"`   // missing features of the mechanism, or of a better one
	Try       string   `json:"try"`       // advice; "" if none is needed
}

// Feature is one probed kernel feature.
type Feature struct {
	Group string `json:"group"`
	Name  string `json:"name"`
	State State  `json:"state"`
	// Configured is the state of the feature's first kernel option: "y", "m", "n", or "" if
	// unknown.
	Configured string `json:"configured"`
	Error      string `json:"error"`
	Try        string `json:"try"`
}

// Examine probes every feature of the running kernel. It takes a fraction of a second and leaves
// nothing behind. Modules list their own capabilities.
func Examine(modules []module.Module) Report {
	report := Report{
		Format: Format, Machine: machine.Describe(), Notes: []string{}, CongestionControls: []string{},
		Privileges: Privileges{Capabilities: probe.Capabilities(), SeccompFilter: probe.SeccompFilter()},
	}
	if clock, err := probe.Clocks(); err == nil {
		report.Clock = Clock{Source: clock.Source, TAI: clock.TAI}
	}
	if groups, err := probe.CgroupMounts(); err == nil {
		report.Cgroups = Cgroups{Mode: groups.Mode, Path: groups.Path}
	}
	config, err := probe.Config()
	if err != nil {
		config = nil
	}
	for _, feature := range probe.Features() {
		report.Features = append(report.Features, examine(feature, config))
	}
	// Probes have loaded the kernel modules of the requested controls.
	if names, err := probe.CongestionControls(); err == nil && names != nil {
		report.CongestionControls = names
	}
	report.Capabilities = capabilities(report.Features, report.CongestionControls, capabilitiesOf(modules))
	report.Notes = append(append(report.Notes, notes(report)...), pinNotes("/sys/fs/bpf")...)
	return report
}

// pinNotes returns a note if policies cannot be pinned, or need a mount first.
func pinNotes(dir string) []string {
	if bpffs.Mountable(dir) {
		return []string{"no BPF file system is mounted at " + dir + ": the first 'weir apply' or 'weir daemon' mounts one with mode 700"}
	}
	err := bpffs.CanPin(dir)
	if err == nil {
		return nil
	}
	return []string{fmt.Sprintf("no policy can be applied: %v: %s; 'weir run' works without", err, fault.Advice(err))}
}

func capabilitiesOf(modules []module.Module) (all []module.Capability) {
	for _, r := range modules {
		if examined, tells := r.(module.CapabilityLister); tells {
			all = append(all, examined.Capabilities()...)
		}
	}
	return all
}

var optionName = regexp.MustCompile(`CONFIG_\w+`)

func examine(feature probe.Feature, config map[string]string) Feature {
	result := Feature{Group: feature.Group, Name: feature.Name, State: Available}
	if name := optionName.FindString(feature.Option); name != "" && config != nil {
		if result.Configured = config[name]; result.Configured == "" {
			result.Configured = "n"
		}
	}
	err := feature.Probe()
	if err == nil {
		return result
	}
	result.State, result.Error, result.Try = Missing, err.Error(), fault.Advice(err)
	if fault.Of(err) == fault.Permission {
		result.State = NotPermitted
	}
	return result
}

// LabError returns nil if the lab can run. Otherwise its status is Testbed, or Permission if only
// privileges are missing.
func (r Report) LabError() error {
	status, try := fault.OK, ""
	var errs []error
	for _, c := range r.Capabilities {
		if c.State == Available || !inLab(c.Name) {
			continue
		}
		errs = append(errs, errors.New(c.Name+": "+string(c.State)))
		if status == fault.OK || c.State == Missing && status == fault.Permission {
			status, try = fault.Permission, c.Try
			if c.State == Missing {
				status = fault.Testbed
			}
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return fault.New(status, try, "the lab cannot run here: %w", join(errs))
}
