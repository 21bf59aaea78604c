// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"weir/core/engine"
)

// writeStatus streams a status as JSON, one scope and row at a time: 10,000 scopes have 12 MB, and
// encoding them at once takes four times as much.
func writeStatus(s engine.Status, to io.Writer) error {
	scopes, modules := s.Scopes, s.Modules
	s.Scopes, s.Modules = []engine.ScopeStatus{}, []engine.ModuleStatus{}
	w := newPieces(to)
	w.object(s, list{"scopes", len(scopes), func(i int) { w.value(scopes[i]) }},
		list{"modules", len(modules), func(i int) { w.module(modules[i]) }})
	return w.close()
}

func (w *pieces) module(one engine.ModuleStatus) {
	one.Rows = []engine.RowStatus{}
	w.object(one, list{"rows", len(one.Report.Rows), func(i int) { w.value(one.Row(i)) }})
}

// pieces writes JSON piece by piece. After the first error it writes nothing.
type pieces struct {
	to     *bufio.Writer
	piece  bytes.Buffer
	encode *json.Encoder
	err    error
}

func newPieces(to io.Writer) *pieces {
	w := &pieces{to: bufio.NewWriterSize(to, 32<<10)}
	w.encode = json.NewEncoder(&w.piece)
	w.encode.SetEscapeHTML(false)
	return w
}

// list is an array that is empty in the encoded object, and the function that writes its elements.
type list struct {
	key     string
	length  int
	element func(int)
}

// object writes a value and fills its empty lists, in the order of its keys. Text cannot be
// mistaken for a key, because quotation marks in it are escaped.
func (w *pieces) object(value any, lists ...list) {
	text := bytes.Clone(w.marshal(value))
	for _, l := range lists {
		before, behind, found := bytes.Cut(text, fmt.Appendf(nil, "%q:[]", l.key))
		if !found && w.err == nil {
			w.err = fmt.Errorf("write status: %T has no empty list %s", value, l.key)
		}
		w.put(before)
		w.put(fmt.Appendf(nil, "%q:[", l.key))
		for i := range l.length {
			if i > 0 {
				w.put([]byte{','})
			}
			l.element(i)
		}
		w.put([]byte{']'})
		text = behind
	}
	w.put(text)
}

func (w *pieces) value(v any) { w.put(w.marshal(v)) }

// marshal returns a value as JSON, valid until the next call.
func (w *pieces) marshal(v any) []byte {
	w.piece.Reset()
	if w.err == nil {
		w.err = w.encode.Encode(v)
	}
	return bytes.TrimSuffix(w.piece.Bytes(), []byte{'\n'})
}

func (w *pieces) put(text []byte) {
	if w.err == nil {
		_, w.err = w.to.Write(text)
	}
}

func (w *pieces) close() error {
	w.put([]byte{'\n'})
	if w.err != nil {
		return w.err
	}
	return w.to.Flush()
}
