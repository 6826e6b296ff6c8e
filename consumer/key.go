package consumer

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/deadletter"
	"github.com/onceward/onceward/dedup"
)

// Field finds an id in a JSON payload: the string or number at a path of names
// joined with dots, such as "invoice.no" (`\.` is a dot inside a name). Names
// are compared exactly.
//
// A number is an id by its text: 9007199254740993 stays itself, 42 and "42"
// are the same id, 42 and 42.0 are not. Everything else is an error: a missing
// field, null, a boolean, an object or array, an empty or blank string, a name
// that occurs twice anywhere in the payload, and a payload over [MaxJSON] or
// nested deeper than [MaxJSONDepth].
func Field(name string) Extract {
	p, err := parsePath(name)
	if err != nil {
		return Extract{Rule: "field " + name, wrong: fmt.Sprintf("is Field(%s), whose path %v", quoteBounded(name), err)}
	}
	paths := []path{p}
	return Extract{Rule: "field " + name, fields: paths, From: func(d *Delivery) (string, error) {
		var found [1][]byte
		if err := d.find(paths, found[:]); err != nil {
			return "", err
		}
		return scalarText(p.text, found[0], d.Value)
	}}
}

// scalarText is the text of a string or a number.
func scalarText(name string, raw jsontext.Value, payload []byte) (string, error) {
	if raw == nil {
		return "", fmt.Errorf("field %s is missing; there are: %s", quoteBounded(name), fieldNames(payload))
	}
	switch kind := raw.Kind(); kind {
	case '0':
		return string(raw), nil
	case '"':
		if text := raw[1 : len(raw)-1]; bytes.IndexByte(text, '\\') < 0 {
			return string(text), nil
		}
		text, err := jsontext.AppendUnquote(nil, raw)
		return string(text), err
	default:
		return "", fmt.Errorf("field %s is %s, not a string or number; there are: %s", quoteBounded(name), kindName(kind), fieldNames(payload))
	}
}

// Header finds an id in the header of that name, compared byte for byte. A
// header that is missing, occurs twice, is empty or is not UTF-8 is an error.
func Header(name string) Extract {
	e := Extract{Rule: "header " + name}
	switch {
	case name == "":
		e.wrong = "is Header(\"\")"
		return e
	case deadletter.IsOwnHeader(name):
		e.wrong = fmt.Sprintf("is Header(%s), and dl-* headers are removed before", quoteBounded(name))
		return e
	}
	e.From = func(d *Delivery) (string, error) {
		at := -1
		for i := range d.Headers {
			if d.Headers[i].Key != name {
				continue
			}
			if at >= 0 {
				return "", fmt.Errorf("header %s occurs twice", quoteBounded(name))
			}
			at = i
		}
		if at < 0 {
			return "", fmt.Errorf("header %s is missing; there are: %s", quoteBounded(name), headerNames(d.Headers))
		}
		return string(d.Headers[at].Value), nil
	}
	return e
}

func headerNames(headers []brokers.Header) string {
	const most = 16
	if len(headers) == 0 {
		return "none"
	}
	var names []string
	for i := range headers {
		if i == most {
			names = append(names, "…")
			break
		}
		names = append(names, quoteBounded(headers[i].Key))
	}
	return strings.Join(names, ", ")
}

// BrokerKey takes the broker's own key as id. A message without one, and one
// whose key is empty or not UTF-8, is an error. NATS has no keys.
func BrokerKey() Extract {
	return Extract{Rule: "broker key", From: func(d *Delivery) (string, error) {
		if d.BrokerKey == nil {
			return "", errors.New("the message has no broker key")
		}
		return string(d.BrokerKey), nil
	}}
}

// Join makes one id of several parts. Each part is written with its length
// before it, as in "4:acme,7:2024/17", so that different parts never make the
// same id. A part that cannot be found makes the whole an error.
func Join(parts ...Extract) Extract {
	rules := make([]string, len(parts))
	e := Extract{}
	for i, p := range parts {
		rules[i] = p.Rule
		e.fields = union(e.fields, p.fields)
		switch {
		case p.wrong != "":
			e.wrong = fmt.Sprintf("is a Join whose part %d %s", i, p.wrong)
		case p.From == nil:
			e.wrong = fmt.Sprintf("is a Join whose part %d is not set", i)
		}
	}
	e.Rule = "join(" + strings.Join(rules, ", ") + ")"
	if len(parts) == 0 {
		e.wrong = "is a Join of nothing"
	}
	if e.wrong != "" {
		return e
	}
	parts = append([]Extract(nil), parts...)
	e.From = func(d *Delivery) (string, error) {
		id := make([]byte, 0, 64)
		for i := range parts {
			text, err := parts[i].text(d)
			if err != nil {
				return "", err
			}
			if i > 0 {
				id = append(id, ',')
			}
			id = strconv.AppendInt(id, int64(len(text)), 10)
			id = append(id, ':')
			id = append(id, text...)
		}
		return string(id), nil
	}
	return e
}

// text is what the extractor finds, if it can stand for one operation.
func (e *Extract) text(d *Delivery) (string, error) {
	text, err := e.From(d)
	if err != nil {
		return "", err
	}
	switch err := dedup.ValidateID(text); {
	case errors.Is(err, dedup.ErrEmptyID):
		return "", fmt.Errorf("%s is empty", e.name())
	case errors.Is(err, dedup.ErrLongID):
		return "", fmt.Errorf("%s is %d bytes, at most %d", e.name(), len(text), dedup.MaxID)
	case err != nil:
		return "", fmt.Errorf("%s is not valid UTF-8", e.name())
	}
	if text[0] <= ' ' || text[0] >= utf8.RuneSelf {
		if strings.TrimFunc(text, unicode.IsSpace) == "" {
			// What is blank stands for nothing, as what is empty.
			return "", fmt.Errorf("%s is blank", e.name())
		}
	}
	return text, nil
}

func (e *Extract) name() string {
	if e.Rule == "" {
		return "the id"
	}
	return boundText(e.Rule, 256)
}
