// Reads the runtime from descriptor 3 and starts it. Given to `node -e`, whose
// top level is the global scope of cells, hence the block.
{
  const fs = require("fs");
  const take = (count) => {
    const bytes = Buffer.alloc(count);
    for (let at = 0; at < count; ) {
      const got = fs.readSync(3, bytes, at, count - at);
      if (got === 0) process.exit(1);
      at += got;
    }
    return bytes;
  };
  const { source, config } = JSON.parse(take(take(4).readUInt32LE(0)));
  const start = new Function("require", "load", "config", source + "\n//# sourceURL=belljar:context");
  // `import()` works in this script, but not in code that V8's inspector runs.
  start(require, (name) => import(name), config);
}
