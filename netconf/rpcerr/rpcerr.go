// SPDX-License-Identifier: Apache-2.0

// Package rpcerr holds the errors of NETCONF replies (RFC 6241 appendix A).
package rpcerr

import (
	"fmt"
	"maps"
	"slices"

	"weir/netconf/xmltree"
)

// Base is the namespace of NETCONF messages.
const Base = "urn:ietf:params:xml:ns:netconf:base:1.0"

// Tag is an error-tag.
type Tag string

const (
	InUse            Tag = "in-use"
	InvalidValue     Tag = "invalid-value"
	TooBig           Tag = "too-big"
	MissingAttribute Tag = "missing-attribute"
	BadAttribute     Tag = "bad-attribute"
	UnknownAttribute Tag = "unknown-attribute"
	MissingElement   Tag = "missing-element"
	BadElement       Tag = "bad-element"
	UnknownElement   Tag = "unknown-element"
	UnknownNamespace Tag = "unknown-namespace"
	AccessDenied     Tag = "access-denied"
	LockDenied       Tag = "lock-denied"
	DataExists       Tag = "data-exists"
	DataMissing      Tag = "data-missing"
	NotSupported     Tag = "operation-not-supported"
	Failed           Tag = "operation-failed"
	Malformed        Tag = "malformed-message"
	ResourceDenied   Tag = "resource-denied"
)

// Info is one element of error-info, in the base namespace unless Space is set.
type Info struct{ Space, Name, Text string }

// Error is one rpc-error.
type Error struct {
	Type     string // transport, rpc, protocol or application
	Tag      Tag
	AppTag   string
	Path     string
	Prefixes map[string]string // of Path
	Message  string
	Info     []Info
}

func (e *Error) Error() string {
	if e.Path == "" {
		return e.Message
	}
	return e.Path + ": " + e.Message
}

// New returns an error of the application layer.
func New(tag Tag, format string, args ...any) *Error {
	return &Error{Type: "application", Tag: tag, Message: fmt.Sprintf(format, args...)}
}

// Protocol returns an error of the protocol layer.
func Protocol(tag Tag, format string, args ...any) *Error {
	e := New(tag, format, args...)
	e.Type = "protocol"
	return e
}

// At adds the path of the node in question.
func (e *Error) At(path string, prefixes map[string]string) *Error {
	e.Path, e.Prefixes = path, prefixes
	return e
}

// With adds an element of error-info.
func (e *Error) With(name, text string) *Error {
	e.Info = append(e.Info, Info{Name: name, Text: text})
	return e
}

// App adds an error-app-tag.
func (e *Error) App(tag string) *Error {
	e.AppTag = tag
	return e
}

// Of returns err as an rpc-error.
func Of(err error) *Error {
	if e, is := err.(*Error); is {
		return e
	}
	return New(Failed, "%s", err)
}

// Write writes the element rpc-error.
func (e *Error) Write(w *xmltree.Writer) {
	w.Start(Base, "rpc-error")
	w.Leaf(Base, "error-type", e.Type)
	w.Leaf(Base, "error-tag", string(e.Tag))
	w.Leaf(Base, "error-severity", "error")
	if e.AppTag != "" {
		w.Leaf(Base, "error-app-tag", e.AppTag)
	}
	if e.Path != "" {
		var declared []string
		for _, prefix := range slices.Sorted(maps.Keys(e.Prefixes)) {
			declared = append(declared, "xmlns:"+prefix, e.Prefixes[prefix])
		}
		w.Leaf(Base, "error-path", e.Path, declared...)
	}
	if e.Message != "" {
		w.Leaf(Base, "error-message", e.Message, "xml:lang", "en")
	}
	if len(e.Info) > 0 {
		w.Start(Base, "error-info")
		for _, i := range e.Info {
			space := i.Space
			if space == "" {
				space = Base
			}
			w.Leaf(space, i.Name, i.Text)
		}
		w.End()
	}
	w.End()
}
