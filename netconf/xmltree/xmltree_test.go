// SPDX-License-Identifier: Apache-2.0

package xmltree

import (
	"errors"
	"strings"
	"testing"
)

func TestRejected(t *testing.T) {
	for name, c := range map[string][2]string{
		"DTD":              {`<!DOCTYPE a [<!ENTITY x "y">]><a>&x;</a>`, "document type"},
		"entity":           {`<a>&x;</a>`, "entity"},
		"nesting":          {`<a><b></a></b>`, "closes element"},
		"open":             {`<a><b></b>`, "not closed"},
		"two roots":        {`<a/><b/>`, "second element"},
		"mixed":            {`<a>text<b/></a>`, "mixes"},
		"mixed, after":     {`<a><b/>text</a>`, "mixes"},
		"prefix":           {`<x:a/>`, "not declared"},
		"attribute prefix": {`<a x:b="1"/>`, "not declared"},
		"twice":            {`<a b="1" b="2"/>`, "twice"},
		"nothing":          {``, "no element"},
		"text":             {`x<a/>`, "outside"},
		"instruction":      {`<?php ?><a/>`, "processing instruction"},
		"octet":            {"<a>\x00</a>", "character"},
	} {
		_, err := Parse([]byte(c[0]), Limits{})
		if err == nil || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%s: %v, want %q", name, err, c[1])
		}
	}
}

func TestLimits(t *testing.T) {
	for name, text := range map[string]string{
		"depth":      strings.Repeat("<a>", 65) + strings.Repeat("</a>", 65),
		"elements":   "<a>" + strings.Repeat("<b/>", 100_000) + "</a>",
		"attributes": "<a " + strings.Repeat("b='1' ", 65) + "/>",
	} {
		if _, err := Parse([]byte(text), Limits{}); !errors.Is(err, ErrTooBig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNamespaces(t *testing.T) {
	e, err := Parse([]byte(`<?xml version="1.0"?><a xmlns="urn:a" xmlns:p="urn:p"><p:b p:x="1" x="2">p:name</p:b><c xmlns=""> t </c></a>`), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	b, c := e.Kid("urn:p", "b"), e.Kid("", "c")
	if b == nil || c == nil || c.Value() != "t" {
		t.Fatalf("%+v", e)
	}
	if v, _ := b.Attr("urn:p", "x"); v != "1" {
		t.Errorf("prefixed attribute: %q", v)
	}
	if v, _ := b.Attr("", "x"); v != "2" {
		t.Errorf("plain attribute: %q", v)
	}
	if space, _ := b.Namespace("p"); space != "urn:p" || b.Bindings()["p"] != "urn:p" {
		t.Errorf("prefix p: %q", space)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`<rpc xmlns="urn:a" xmlns:p="urn:p" message-id="1"><p:get a="&#9;&lt;">p:x<![CDATA[<>]]></p:get></rpc>`))
	f.Add([]byte(`<!DOCTYPE a><a/>`))
	f.Add([]byte(`<a><b></b></a><!-- c -->`))
	f.Fuzz(func(t *testing.T, in []byte) {
		e, err := Parse(in, Limits{Depth: 16, Elements: 1000})
		if err != nil {
			return
		}
		var w Writer
		w.Element(e)
		again, err := Parse([]byte(w.String()), Limits{Depth: 17, Elements: 1001, Attributes: 1 << 20})
		if err != nil {
			t.Fatalf("%q was written as %q: %v", in, w.String(), err)
		}
		if !same(e, again) {
			t.Fatalf("%q was written as %q", in, w.String())
		}
	})
}

func same(a, b *Element) bool {
	if a.Space != b.Space || a.Local != b.Local || len(a.Kids) != len(b.Kids) || a.Text != b.Text || len(a.Attrs) != len(b.Attrs) {
		return false
	}
	for i := range a.Attrs {
		if a.Attrs[i].Space != b.Attrs[i].Space || a.Attrs[i].Local != b.Attrs[i].Local || a.Attrs[i].Value != b.Attrs[i].Value {
			return false
		}
	}
	for i := range a.Kids {
		if !same(a.Kids[i], b.Kids[i]) {
			return false
		}
	}
	return true
}
