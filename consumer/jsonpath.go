package consumer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Limits on what is read as JSON. Nothing of a payload is copied while it is
// searched, so they bound time and stack, not memory.
const (
	// MaxJSON is the largest payload that is read as JSON: larger than any
	// message that Kafka (1 MiB) or NATS (64 MiB at most) is set up for.
	MaxJSON = 64 << 20
	// MaxJSONDepth is how deep objects and arrays may nest, as in encoding/json:
	// far beyond real data, and short of what a stack notices.
	MaxJSONDepth = 10_000

	maxPathNames = 16
	maxFields    = 32 // fields of one digest; a mask of bits
)

// jsonOptions reject what two readers could understand differently: a name
// that occurs twice in an object, and bytes that are not UTF-8. Both are the
// library's defaults, said here because keys hang on them.
var jsonOptions = json.JoinOptions(jsontext.AllowDuplicateNames(false), jsontext.AllowInvalidUTF8(false))

// path is a way down through objects by name.
type path struct {
	text  string
	names []string
}

// parsePath splits at dots; `\.` is a dot inside a name, `\\` a backslash.
func parsePath(text string) (path, error) {
	p := path{text: text}
	var name strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text) && (text[i+1] == '.' || text[i+1] == '\\'):
			i++
			name.WriteByte(text[i])
		case c == '.':
			p.names = append(p.names, name.String())
			name.Reset()
		default:
			name.WriteByte(c)
		}
	}
	p.names = append(p.names, name.String())
	switch {
	case len(p.names) > maxPathNames:
		return p, fmt.Errorf("is %d names deep, at most %d", len(p.names), maxPathNames)
	case !utf8.ValidString(text):
		return p, errors.New("is not valid UTF-8")
	}
	if slices.Contains(p.names, "") {
		return p, errors.New("has an empty name")
	}
	return p, nil
}

// reader is a decoder with the buffer that it reads from.
type reader struct {
	buffer bytes.Buffer
	dec    *jsontext.Decoder
	name   []byte // of a member whose name is written with escapes
}

var readers = sync.Pool{New: func() any {
	r := new(reader)
	r.dec = jsontext.NewDecoder(&r.buffer, jsonOptions)
	return r
}}

// openJSON lends a reader of value; give it back with close.
func openJSON(value []byte) *reader {
	r := readers.Get().(*reader)
	r.buffer = *bytes.NewBuffer(value)
	r.dec.Reset(&r.buffer, jsonOptions)
	return r
}

func (r *reader) close() {
	r.buffer = bytes.Buffer{}
	r.dec.Reset(&r.buffer, jsonOptions) // lets go of the payload
	if cap(r.name) > 4<<10 {
		r.name = nil
	}
	readers.Put(r)
}

// lookup finds the raw value of each path in one pass over the whole of value,
// and leaves nil in found where there is none. The slices in found point into
// value. It reads to the end: JSON that breaks off later, or a name that
// occurs twice anywhere, is an error.
func lookup(value []byte, paths []path, found [][]byte) error {
	if err := readable(value); err != nil {
		return err
	}
	r := openJSON(value)
	defer r.close()
	if kind := r.dec.PeekKind(); kind != '{' && kind != 0 {
		return fmt.Errorf("payload is JSON, but %s and no object", kindName(kind))
	}
	if err := r.object(value, paths, found, 1<<len(paths)-1, 0); err != nil {
		return jsonFault(err)
	}
	if _, err := r.dec.ReadToken(); !errors.Is(err, io.EOF) {
		if err == nil {
			err = errors.New("more follows after the object")
		}
		return jsonFault(err)
	}
	return nil
}

// readable says why a payload cannot be JSON before any of it is read.
func readable(value []byte) error {
	switch {
	case value == nil:
		return &malformedError{errors.New("payload is nil (a tombstone), not JSON")}
	case len(value) == 0:
		return &malformedError{errors.New("payload is empty, not JSON")}
	case len(value) > MaxJSON:
		return &malformedError{fmt.Errorf("payload is %d bytes, at most %d are read as JSON", len(value), MaxJSON)}
	}
	return nil
}

// object reads one object, in which the paths of the mask go on at depth.
func (r *reader) object(value []byte, paths []path, found [][]byte, mask uint32, depth int) error {
	if _, err := r.dec.ReadToken(); err != nil {
		return err
	}
	for r.dec.PeekKind() != '}' {
		name, err := r.dec.ReadValue()
		if err != nil {
			return err
		}
		here, deeper := r.match(name, paths, mask, depth)
		switch {
		case here != 0:
			raw, err := r.dec.ReadValue()
			if err != nil {
				return err
			}
			end := int(r.dec.InputOffset())
			raw = value[end-len(raw) : end]
			for i := range paths {
				if here&(1<<i) != 0 {
					found[i] = raw
				}
			}
			if deeper != 0 && raw.Kind() == '{' {
				// One path is the beginning of another: the value was read as
				// a whole for the first, and again for what lies in it.
				inner := openJSON(raw)
				err := inner.object(raw, paths, found, deeper, depth+1)
				inner.close()
				if err != nil {
					return err
				}
			}
		case deeper != 0 && r.dec.PeekKind() == '{':
			if err := r.object(value, paths, found, deeper, depth+1); err != nil {
				return err
			}
		default:
			// The whole payload is in memory, where reading a value at once is
			// faster than skipping it token by token.
			if _, err := r.dec.ReadValue(); err != nil {
				return err
			}
		}
	}
	_, err := r.dec.ReadToken()
	return err
}

// match says which paths of the mask end at the member with this quoted name,
// and which go on below it.
func (r *reader) match(quoted []byte, paths []path, mask uint32, depth int) (here, deeper uint32) {
	name := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(name, '\\') >= 0 {
		r.name, _ = jsontext.AppendUnquote(r.name[:0], quoted)
		name = r.name
	}
	for i := range paths {
		if mask&(1<<i) == 0 || paths[i].names[depth] != string(name) {
			continue
		}
		if depth == len(paths[i].names)-1 {
			here |= 1 << i
		} else {
			deeper |= 1 << i
		}
	}
	return here, deeper
}
