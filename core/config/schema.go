package config

import (
	"encoding/json"
	"reflect"
	"strings"

	"github.com/invopop/jsonschema"
)

// SchemaID is the id of the JSON schema of configuration files.
const SchemaID = "https://github.com/replicant-sidecar/replicant-sidecar/config.schema.json"

// Schema is the JSON schema of configuration files, for editors and other linters. It
// is made from Config's tags.
func Schema() ([]byte, error) {
	r := jsonschema.Reflector{
		FieldNameTag: "yaml", DoNotReference: true, ExpandedStruct: true,
		RequiredFromJSONSchemaTags: true, Mapper: typedText,
	}
	schema := r.ReflectFromType(reflect.TypeFor[Config]())
	schema.ID = SchemaID
	schema.Title = "Configuration of replicant-sidecar"
	for i := range Keys() {
		describe(schema, &Keys()[i])
	}
	out, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(out, '\n'), nil
}

// typedText gives durations and sizes their pattern. 0 needs no unit.
func typedText(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[Duration]():
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{
			{Type: "string", Pattern: durationPattern}, {Const: 0},
		}}
	case reflect.TypeFor[Size]():
		return &jsonschema.Schema{Type: "string", Pattern: sizePattern}
	case reflect.TypeFor[DSN]():
		return &jsonschema.Schema{Type: "string"}
	}
	return nil
}

func describe(schema *jsonschema.Schema, k *Key) {
	at := schema
	for part := range strings.SplitSeq(k.Path, ".") {
		at, _ = at.Properties.Get(part)
	}
	at.Description = k.Description
	for _, word := range k.Enum {
		at.Enum = append(at.Enum, word)
	}
	if k.Default == "" {
		return
	}
	value, _ := k.parse(k.Default)
	switch value.(type) {
	case Duration, Size:
		at.Default = k.Default
	default:
		at.Default = value
	}
}
