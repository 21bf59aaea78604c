// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"weir/core/module"
	"weir/core/policy"
	"weir/internal/direction"
)

// toyModule is a minimal complete module: the key "tally: N" adds N to a counter for each packet
// that a cgroup sends. In shadow it adds to a second counter. ARCHITECTURE.md refers to it as the
// example of a module, and module_test.go tests it.
type toyModule struct{}

type (
	toyKeys struct {
		Tally int `yaml:"tally" doc:"Added to the counter for each packet."`
	}
	toyTreatment struct{ Each int }
	toyPlane     struct{ module.Host }
)

func (t *toyTreatment) Summary() string { return fmt.Sprintf("tally %d", t.Each) }
func (toyModule) Name() string          { return "toy" }

func (toyModule) Grammar() policy.Grammar {
	return policy.Grammar{Module: "toy", Scope: toyKeys{}, Treats: []string{"tally"}, Read: func(d *policy.Draft) {
		for i := range d.Scopes {
			switch s := &d.Scopes[i]; {
			case !s.Has("tally"):
			case s.Keys.(*toyKeys).Tally < 1 || s.Selector.Kind != "cgroup":
				d.Complain(s, "tally", "tally counts 1 or more for the packets of a cgroup")
			default:
				d.Treat(s, &toyTreatment{s.Keys.(*toyKeys).Tally})
			}
		}
	}}
}

func (toyModule) Decode(text []byte) (policy.Treatment, error) {
	t := &toyTreatment{}
	return t, json.Unmarshal(text, t)
}

func (toyModule) Mechanism(module.Bound) string { return "a program that counts" }

func (toyModule) Columns() module.Columns {
	return module.Columns{Rows: []module.Column{{Name: "counted", Title: "counted", Kind: module.Counter, Help: "Sum of tally over all packets."},
		{Name: "would", Title: "would count", Kind: module.Counter, Help: "The same sum in shadow."}}}
}

func (toyModule) Checks(policy.Scope) []module.Check {
	return []module.Check{{Name: "tally", Direction: direction.Egress, Counters: []string{"counted"}, Judge: func(all []module.Sample, _ module.Circumstances) (module.Verdict, string) {
		for _, s := range all {
			if s.Counters["counted"] == 0 {
				return module.Fails, "packets passed and none was counted"
			}
		}
		return module.Holds, ""
	}}}
}

func (toyModule) Plane(h module.Host) module.Plane { return toyPlane{h} }
func (toyPlane) Ready(module.State) error          { return nil }

func (p toyPlane) pin(kind string, i int) string { return filepath.Join(p.Pins, kind+strconv.Itoa(i)) }

func (p toyPlane) InPlace(have module.State) (bool, error) {
	for _, b := range have.Scopes {
		if _, err := os.Stat(p.pin("link", b.Index)); b.Binding.Missing == "" && err != nil {
			return false, nil
		}
	}
	return true, nil
}

func (p toyPlane) Apply(have, want module.State) ([]string, error) {
	for _, b := range have.Scopes {
		if after, stays := want.ByIndex()[b.Index]; !stays || after.Binding != b.Binding {
			_ = errors.Join(os.Remove(p.pin("link", b.Index)), os.Remove(p.pin("map", b.Index)))
		}
	}
	for _, b := range want.Scopes {
		if err := p.count(b); b.Binding.Missing == "" && err != nil {
			return nil, fmt.Errorf("scope %s: %w", b.Name, err)
		}
	}
	return nil, nil
}

// count attaches the counting program of a scope, or replaces an attached one.
func (p toyPlane) count(b module.Bound) error {
	counts, err := ebpf.LoadPinnedMap(p.pin("map", b.Index), nil)
	if errors.Is(err, fs.ErrNotExist) {
		counts, err = ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 2})
		err = errors.Join(err, os.MkdirAll(p.Pins, 0o700), counts.Pin(p.pin("map", b.Index)))
	}
	if err != nil {
		return err
	}
	entry := map[bool]int64{true: 1}[b.Shadow]
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.CGroupSKB, License: "GPL", Instructions: asm.Instructions{
		asm.StoreImm(asm.RFP, -4, entry, asm.Word), asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, -4), asm.LoadMapPtr(asm.R1, counts.FD()),
		asm.FnMapLookupElem.Call(), asm.JEq.Imm(asm.R0, 0, "out"), asm.Mov.Imm(asm.R1, int32(b.Treatment.(*toyTreatment).Each)),
		asm.StoreXAdd(asm.R0, asm.R1, asm.DWord), asm.Mov.Imm(asm.R0, 1).WithSymbol("out"), asm.Return(),
	}})
	if err != nil {
		return err
	}
	if old, err := link.LoadPinnedLink(p.pin("link", b.Index), nil); err == nil {
		return errors.Join(old.Update(program), old.Close())
	}
	attached, err := link.AttachCgroup(link.CgroupOptions{Path: filepath.Join(p.CgroupRoot, b.Selector.Text), Attach: ebpf.AttachCGroupInetEgress, Program: program})
	if err != nil {
		return err
	}
	return errors.Join(attached.Pin(p.pin("link", b.Index)), attached.Close())
}

func (p toyPlane) Report(have module.State) (report module.Report, err error) {
	for _, b := range have.Scopes {
		row := module.Row{Scope: b.Name}
		if counts, err := ebpf.LoadPinnedMap(p.pin("map", b.Index), nil); err == nil {
			var n [2]uint64
			_ = errors.Join(counts.Lookup(uint32(0), &n[0]), counts.Lookup(uint32(1), &n[1]), counts.Close())
			row.Values = []module.Value{module.Counted(n[0]), module.Counted(n[1])}
		}
		report.Rows = append(report.Rows, row)
	}
	return report, nil
}

func (p toyPlane) Release() (bool, error) {
	_, err := os.Stat(p.Pins)
	return err == nil, os.RemoveAll(p.Pins)
}
