// SPDX-License-Identifier: Apache-2.0

package yamlfile

import (
	"reflect"
	"slices"
	"testing"
)

func TestReferences(t *testing.T) {
	type inner struct {
		Fields `yaml:"-"`
		Rate   string `yaml:"rate,required" doc:"How fast."`
	}
	type outer struct {
		Fields `yaml:"-"`
		Kind   string      `yaml:"kind" enum:"a,b" doc:"Which."`
		Up     *inner      `yaml:"up" doc:"One way."`
		Down   *inner      `yaml:"down" doc:"The other."`
		All    Map[*inner] `yaml:"all" doc:"By name."`
		List   []string    `yaml:"list" doc:"Words."`
	}
	want := []Reference{
		{Path: "kind", Doc: "Which", Values: []string{"a", "b"}},
		{Path: "up", Doc: "One way"},
		{Path: "up.rate", Doc: "How fast", Required: true},
		{Path: "down", Doc: "The other; its keys are those of `up`"},
		{Path: "all", Doc: "By name; its keys are those of `up`"},
		{Path: "list", Doc: "Words"},
	}
	got := References(reflect.TypeFor[outer]())
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if below := Below(got, "up"); len(below) != 1 || below[0].Path != "rate" {
		t.Errorf("below up: %+v", below)
	}
	if top := Below(got, ""); len(top) != 5 || slices.ContainsFunc(top, func(r Reference) bool { return r.Path == "up.rate" }) {
		t.Errorf("at the top: %+v", top)
	}
}
