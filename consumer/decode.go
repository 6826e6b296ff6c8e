package consumer

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// typedOptions read and write what encoding/json reads and writes, but refuse
// names that occur twice (also as "id" and "ID", which would fill the same
// struct field) and bytes that are not UTF-8.
var typedOptions = json.JoinOptions(
	jsonv1.DefaultOptionsV1(),
	jsonv1.ReportErrorsWithLegacySemantics(false), // the others have places, not values
	jsontext.AllowDuplicateNames(false),
	jsontext.AllowInvalidUTF8(false),
)

// JSON makes a route of a typed handler: the payload is read as JSON into a T,
// id finds the business id in it, and fn does the work. Everything else of the
// route may be set on what is returned; [Delivery.Decoded] is a *T.
//
// The payload is read as encoding/json would, only stricter: a name that occurs
// twice in an object is a key letter, bytes that are not UTF-8 and payloads
// over [MaxJSON] or deeper than [MaxJSONDepth] are decode letters. Fields that T
// does not know are ignored.
//
// id must return "" when there is none; a zero number turned into text would
// be one record for all messages that lack the field.
func JSON[T any](scope string, id func(T) string, fn func(context.Context, T) error) Route {
	return typed(scope, readJSON[T], id, withoutResult(fn))
}

// JSONResult is [JSON] for a handler with a result, which is kept as JSON for
// whoever sends the same operation again. A result that cannot be written as
// JSON leaves the operation in doubt: its work was done.
func JSONResult[T, R any](scope string, id func(T) string, fn func(context.Context, T) (R, error)) Route {
	return typed(scope, readJSON[T], id, withResult(fn))
}

// Decoded is [JSON] with any decoder in place of JSON, such as Protobuf or
// Avro. What decode refuses is a decode letter; decode must not keep or change
// the payload. A tombstone is given to decode as nil.
func Decoded[T any](scope string, decode func([]byte) (T, error), id func(T) string, fn func(context.Context, T) error) Route {
	return typed(scope, boxed(decode), id, withoutResult(fn))
}

// DecodedResult is [Decoded] for a handler with a result, kept as JSON as in
// [JSONResult].
func DecodedResult[T, R any](scope string, decode func([]byte) (T, error), id func(T) string, fn func(context.Context, T) (R, error)) Route {
	return typed(scope, boxed(decode), id, withResult(fn))
}

// typed is the edge between a typed handler and the core, which knows bytes.
func typed[T any](scope string, decode func(*Delivery) (any, error), id func(T) string, run func(context.Context, T) (Result, error)) Route {
	r := Route{Scope: scope, Decode: decode}
	name := typeName[T]()
	if id != nil {
		r.ID = Extract{Rule: "id of " + name, From: func(d *Delivery) (string, error) {
			v, err := decodedAs[T](d)
			if err != nil {
				return "", err
			}
			text := id(*v)
			if text == "" {
				return "", fmt.Errorf("id of %s is empty; there are: %s", name, fieldNames(d.Value))
			}
			return text, nil
		}}
	}
	if run != nil {
		r.Run = func(ctx context.Context, d *Delivery) (Result, error) {
			v, err := decodedAs[T](d)
			if err != nil {
				return nil, Terminal(err)
			}
			return run(ctx, *v)
		}
	}
	return r
}

// decodedAs tells a decoder that was exchanged for one of another type.
func decodedAs[T any](d *Delivery) (*T, error) {
	v, ok := d.Decoded.(*T)
	if !ok || v == nil {
		return nil, fmt.Errorf("the route's Decode gave a %T, its handler takes a *%s", d.Decoded, typeName[T]())
	}
	return v, nil
}

func boxed[T any](decode func([]byte) (T, error)) func(*Delivery) (any, error) {
	if decode == nil {
		return func(*Delivery) (any, error) { return nil, errors.New("the route has no decoder") }
	}
	return func(d *Delivery) (any, error) {
		v, err := decode(d.Value)
		if err != nil {
			return nil, err
		}
		return &v, nil
	}
}

func readJSON[T any](d *Delivery) (any, error) {
	if err := readable(d.Value); err != nil {
		return nil, err
	}
	v := new(T)
	if err := json.Unmarshal(d.Value, v, typedOptions); err != nil {
		return nil, typedFault(err)
	}
	return v, nil
}

// typedFault names the place and the type that does not fit, never the value.
func typedFault(err error) error {
	if errors.Is(err, jsontext.ErrDuplicateName) {
		return jsonFault(err)
	}
	if semantic, ok := errors.AsType[*json.SemanticError](err); ok && semantic.GoType != nil {
		where := "the payload"
		if semantic.JSONPointer != "" {
			where = "field " + quoteBounded(string(semantic.JSONPointer))
		}
		return fmt.Errorf("%s does not fit: %s into %s", where, kindName(semantic.JSONKind), boundText(semantic.GoType.String(), 128))
	}
	return jsonFault(err)
}

func withoutResult[T any](fn func(context.Context, T) error) func(context.Context, T) (Result, error) {
	if fn == nil {
		return nil
	}
	return func(ctx context.Context, v T) (Result, error) { return nil, fn(ctx, v) }
}

func withResult[T, R any](fn func(context.Context, T) (R, error)) func(context.Context, T) (Result, error) {
	if fn == nil {
		return nil
	}
	return func(ctx context.Context, v T) (Result, error) {
		result, err := fn(ctx, v)
		if err != nil {
			return nil, err
		}
		text, err := encode(result)
		if err != nil {
			return nil, InDoubt(fmt.Errorf("the work is done, but its result, a %T, cannot be written as JSON: %w", result, err))
		}
		return text, nil
	}
}

// encode makes an error of a panic: the handler has not failed, and must not
// run again.
func encode(result any) (text []byte, err error) {
	defer func() {
		if v := recover(); v != nil {
			text, err = nil, fmt.Errorf("panic: %v", v)
		}
	}()
	return json.Marshal(result, typedOptions)
}

func typeName[T any]() string { return boundText(reflect.TypeFor[T]().String(), 128) }
