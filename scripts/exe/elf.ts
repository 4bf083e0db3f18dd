/**
 * Puts the blob of a single-file executable into Node's program for Linux (ELF, 64 bits, little-endian).
 *
 * Node looks for it among the notes that its program headers name (PT_NOTE), in memory. A new loaded segment would need a
 * longer table of program headers, for which there is no room. So the last loaded segment, the one of writable data,
 * moves to the end of the file and grows: its data, the zeros of its .bss, the notes. PT_NOTE then points there. The pages
 * of the blob are mapped from the file, and cost memory only when they are read.
 */

const loadType = 1
const noteType = 4
/** Node reads its blob only in a program whose fuse is set. */
const fuse = 'NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2:'
const noteName = 'NODE_SEA_BLOB'

/** Offsets of fields within a program header. */
const field = { type: 0, offset: 8, address: 16, physical: 24, fileSize: 32, memorySize: 40, align: 48 } as const

class ProgramHeader {
  readonly #view: DataView
  readonly #at: number

  constructor(view: DataView, at: number) {
    this.#view = view
    this.#at = at
  }

  get type(): number {
    return this.#view.getUint32(this.#at + field.type, true)
  }

  get(name: Exclude<keyof typeof field, 'type'>): number {
    return Number(this.#view.getBigUint64(this.#at + field[name], true))
  }

  set(name: Exclude<keyof typeof field, 'type'>, value: number): void {
    this.#view.setBigUint64(this.#at + field[name], BigInt(value), true)
  }
}

export function isElf(program: Buffer): boolean {
  // The magic number, 64 bits, little-endian.
  return program.subarray(0, 6).equals(Buffer.from([0x7f, 0x45, 0x4c, 0x46, 2, 1]))
}

/** The program with the blob inside. Throws when the program is not laid out as Node's is. */
export function withBlob(program: Buffer, blob: Buffer): Buffer {
  if (!isElf(program)) throw new Error('This Node is no ELF program of 64 bits.')
  const head = Buffer.from(program)
  const view = new DataView(head.buffer, head.byteOffset, head.byteLength)
  const headers = programHeaders(view)
  const data = headers.filter(({ type }) => type === loadType).at(-1)
  const [note, ...otherNotes] = headers.filter(({ type }) => type === noteType)
  if (data === undefined || note === undefined) throw new Error('This Node has no loaded segment, or no notes.')
  const end = data.get('address') + data.get('memorySize')
  if (headers.some((header) => header.type === loadType && header.get('address') > data.get('address'))) {
    throw new Error('The last loaded segment of this Node is not the one with the highest addresses.')
  }
  if (otherNotes.length > 0 && otherNotes.some((other) => other.get('align') !== note.get('align'))) {
    throw new Error('The notes of this Node are aligned in different ways.')
  }
  setFuse(head)

  const moved = data.get('offset')
  const start = alignedLike(head.length, moved, data.get('align'))
  const bytes = head.subarray(moved, moved + data.get('fileSize'))
  const oldNotes = head.subarray(note.get('offset'), note.get('offset') + note.get('fileSize'))
  const notes = Buffer.concat([noteOf(noteName, blob), oldNotes])
  const notesAt = roundUp(end, 16)

  // Segments inside the moved one keep their addresses; their offsets follow it.
  for (const header of headers) {
    const offset = header.get('offset')
    if (header !== data && offset >= moved && offset < moved + data.get('fileSize')) {
      header.set('offset', start + offset - moved)
    }
  }
  note.set('offset', start + notesAt - data.get('address'))
  note.set('address', notesAt)
  note.set('physical', notesAt)
  for (const size of ['fileSize', 'memorySize'] as const) {
    note.set(size, notes.length)
    data.set(size, notesAt + notes.length - data.get('address'))
  }
  data.set('offset', start)
  const zeros = (length: number) => Buffer.alloc(length)
  const bss = zeros(notesAt - data.get('address') - bytes.length)
  return Buffer.concat([head, zeros(start - head.length), bytes, bss, notes])
}

function programHeaders(view: DataView): ProgramHeader[] {
  const table = Number(view.getBigUint64(32, true))
  const size = view.getUint16(54, true)
  return Array.from({ length: view.getUint16(56, true) }, (_, i) => new ProgramHeader(view, table + i * size))
}

function setFuse(program: Buffer): void {
  const at = program.indexOf(fuse)
  if (at === -1) throw new Error('This Node cannot become a single-file executable: it has no fuse for it.')
  program.write('1', at + fuse.length, 'latin1')
}

function noteOf(name: string, content: Buffer): Buffer {
  const head = Buffer.alloc(12)
  head.writeUInt32LE(name.length + 1, 0)
  head.writeUInt32LE(content.length, 4)
  const padded = (bytes: Buffer) => Buffer.concat([bytes, Buffer.alloc(roundUp(bytes.length, 4) - bytes.length)])
  return Buffer.concat([head, padded(Buffer.from(`${name}\0`)), padded(content)])
}

function roundUp(value: number, to: number): number {
  return Math.ceil(value / to) * to
}

/** The first offset from `from` on that lies within its page as `like` does, as the loader demands. */
function alignedLike(from: number, like: number, align: number): number {
  return roundUp(from - (like % align), align) + (like % align)
}
