// Reads the columns of a Parquet file from its footer. Values are compressed, so the page has none.
// https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift, in Thrift's compact protocol.

const MAGIC = 4; // bytes, after four of the footer's length
const MOST_BYTES = 16_000_000; // of a footer
const [SCHEMA, ROW_GROUPS] = [2, 4]; // fields of FileMetaData
const [TYPE, REPETITION, NAME, CHILDREN, CONVERTED, LOGICAL] = [1, 3, 4, 5, 6, 10]; // of SchemaElement
const PHYSICAL = ["boolean", "number", "number", "text", "number", "number", "bytes", "bytes"]; // INT96 is a time
const named = (names) => Object.entries(names).flatMap(([type, codes]) => codes.map((code) => [code, type]));
const CONVERTED_TYPES = new Map(named({ text: [0, 4, 6, 7, 8, 9, 10, 19], list: [3], number: [5] })); // times are texts
const LOGICAL_TYPES = new Map(named({ text: [1, 4, 6, 7, 8, 12, 14], list: [3], number: [5] }));
const REPEATED = 2;

/** The columns: {name, type}; null if the footer cannot be read. */
export async function columnsOf(file) {
  try {
    const tail = new DataView(await file.slice(-MAGIC - 4).arrayBuffer());
    const size = tail.getUint32(0, true);
    if (size > Math.min(MOST_BYTES, file.size - MAGIC - 4)) return null;
    const footer = new Reader(await file.slice(-size - MAGIC - 4, -MAGIC - 4).arrayBuffer());
    const [root, ...elements] = footer.struct(ROW_GROUPS).get(SCHEMA);
    const columns = [];
    for (let at = 0; columns.length < root.get(CHILDREN); at = after(elements, at)) {
      columns.push({ name: elements[at].get(NAME), type: typeOf(elements[at]), letters: 0 });
    }
    return columns;
  } catch (error) {
    if (error instanceof RangeError || error instanceof TypeError) return null; // not what a footer is
    throw error;
  }
}

/** The place after an element and what is below it. */
function after(elements, at) {
  let next = at + 1;
  for (let left = elements[at].get(CHILDREN) ?? 0; left > 0; left -= 1) next = after(elements, next);
  return next;
}

function typeOf(element) {
  if (element.get(REPETITION) === REPEATED) return "list";
  const [logical] = element.get(LOGICAL)?.keys() ?? [];
  const type = LOGICAL_TYPES.get(logical) ?? CONVERTED_TYPES.get(element.get(CONVERTED));
  return type ?? (element.has(CHILDREN) ? "object" : PHYSICAL[element.get(TYPE)]);
}

class Reader {
  constructor(buffer) {
    this.view = new DataView(buffer);
    this.at = 0;
  }

  byte() {
    return this.view.getUint8(this.at++);
  }

  varint() {
    let value = 0;
    for (let factor = 1; ; factor *= 128) {
      const byte = this.byte();
      value += (byte & 127) * factor;
      if (byte < 128) return value;
    }
  }

  /** The values of a struct by the numbers of their fields, up to a field. */
  struct(end = Infinity) {
    const values = new Map();
    for (let number = 0; ; ) {
      const head = this.byte();
      if (head === 0) return values;
      number = head >> 4 ? number + (head >> 4) : this.integer();
      if (number >= end) return values;
      values.set(number, this.value(head & 15));
    }
  }

  integer() {
    const value = this.varint(); // zigzag
    return value % 2 ? -(value + 1) / 2 : value / 2;
  }

  value(type) {
    if (type <= 2) return type === 1;
    if (type === 3) return this.byte();
    if (type <= 6) return this.integer();
    if (type === 7) return (this.at += 8);
    if (type === 8) return this.text();
    if (type === 9) return this.list();
    if (type === 12) return this.struct();
    throw new RangeError(`no value of type ${type}`);
  }

  text() {
    const size = this.varint();
    const bytes = new Uint8Array(this.view.buffer, this.at, size);
    this.at += size;
    return new TextDecoder().decode(bytes);
  }

  list() {
    const head = this.byte();
    const size = head >> 4 === 15 ? this.varint() : head >> 4;
    const values = [];
    while (values.length < size) values.push(this.value(head & 15));
    return values;
  }
}
